#include "pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <climits>
#include <new>

#include "crossdock/core/error.h"
#include "errors.h"

namespace crossdock::transport::net::tls {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const noexcept { ::BIO_free(bio); }
};
using BioPtr = std::unique_ptr<BIO, FreeBio>;

BioPtr text_of(const std::string& pem, const std::string& named) {
  if (pem.size() > INT_MAX) throw InvalidArgumentError(named + " is over 2 GiB: it is no PEM text");
  BioPtr bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (!bio) throw std::bad_alloc();
  return bio;
}

/// Without it, OpenSSL would ask on the terminal. Sets `*asked`, which `data` points to.
int refuse_password(char*, int, int, void* data) noexcept {
  *static_cast<bool*>(data) = true;
  return -1;
}

bool is_end_of_text() noexcept {
  const unsigned long error = ::ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

}  // namespace

std::vector<CertificatePtr> read_certificates(const std::string& pem, const std::string& named) {
  const BioPtr text = text_of(pem, named);
  std::vector<CertificatePtr> found;
  bool asked = false;
  ::ERR_clear_error();
  while (X509* const next = ::PEM_read_bio_X509(text.get(), nullptr, refuse_password, &asked)) {
    found.emplace_back(next);
  }
  if (!is_end_of_text()) {
    throw InvalidArgumentError(named + " has a certificate that can't be read: " + take_reasons());
  }
  ::ERR_clear_error();
  if (found.empty()) {
    throw InvalidArgumentError(named + " has no certificate: give a PEM text with -----BEGIN CERTIFICATE-----");
  }
  return found;
}

std::string to_pem(X509* certificate) {
  const BioPtr text(::BIO_new(::BIO_s_mem()));
  if (!text || ::PEM_write_bio_X509(text.get(), certificate) != 1) throw std::bad_alloc();
  char* bytes = nullptr;
  const long size = ::BIO_get_mem_data(text.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

KeyPtr read_key(const std::string& pem, const std::string& named) {
  const BioPtr text = text_of(pem, named);
  bool asked = false;
  ::ERR_clear_error();
  KeyPtr key(::PEM_read_bio_PrivateKey(text.get(), nullptr, refuse_password, &asked));
  if (key) return key;
  if (asked) {
    ::ERR_clear_error();
    throw InvalidArgumentError(named + " is encrypted with a password: give the key itself (openssl pkey -in KEY)");
  }
  throw InvalidArgumentError(named + " is no private key in PEM: " + take_reasons());
}

}  // namespace crossdock::transport::net::tls
