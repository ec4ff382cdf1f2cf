#include "certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <stdexcept>

namespace crossdock::testing {
namespace {

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string("OpenSSL can't make a test's certificate: ") + what);
}

void add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  require(extension != nullptr, value.c_str());
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  require(added, "an extension");
}

template <typename Write>
std::string text_of(Write write) {
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new(BIO_s_mem()), BIO_free);
  require(bio && write(bio.get()) == 1, "its text");
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

struct Certificate::Parts {
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key{EVP_EC_gen("P-256"), EVP_PKEY_free};
  std::unique_ptr<X509, void (*)(X509*)> certificate{X509_new(), X509_free};
};

Certificate Certificate::make(const CertificateFacts& facts, const Parts* issuer) {
  auto parts = std::make_shared<Parts>();
  X509* const certificate = parts->certificate.get();
  require(parts->key && certificate != nullptr, "its key");
  if (issuer == nullptr) issuer = parts.get();
  std::uint32_t serial = 0;
  require(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1, "its number");
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), static_cast<long>(serial >> 1U) + 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), facts.valid_from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), facts.valid_until_s);
  X509_set_pubkey(certificate, parts->key.get());
  const auto* const subject = reinterpret_cast<const unsigned char*>(facts.subject.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8, subject, -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer->certificate.get()));
  X509* const by = issuer->certificate.get();
  add_extension(certificate, by, NID_basic_constraints, facts.is_issuer ? "critical,CA:TRUE" : "CA:FALSE");
  add_extension(certificate, by, NID_subject_key_identifier, "hash");
  std::string names;
  for (const std::string& name : facts.names) names += (names.empty() ? "" : ",") + name;
  if (!names.empty()) add_extension(certificate, by, NID_subject_alt_name, names);
  require(X509_sign(certificate, issuer->key.get(), EVP_sha256()) > 0, "its signature");
  return Certificate(std::move(parts));
}

Certificate Certificate::self_signed(const CertificateFacts& facts) { return make(facts, nullptr); }
Certificate Certificate::issue(const CertificateFacts& facts) const { return make(facts, parts_.get()); }

std::string Certificate::pem() const {
  return text_of([this](BIO* to) { return PEM_write_bio_X509(to, parts_->certificate.get()); });
}
std::string Certificate::key_pem() const {
  return text_of([this](BIO* to) {
    return PEM_write_bio_PrivateKey(to, parts_->key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

TestCertificates::TestCertificates()
    : issuer(Certificate::self_signed({.subject = "the tests' issuer", .is_issuer = true})),
      server(issuer.issue({.subject = "a server", .names = {"DNS:localhost", "IP:127.0.0.1", "IP:::1"}})),
      client(issuer.issue({.subject = "a client"})) {}

transport::TlsOptions TestCertificates::server_options(bool mutual) const {
  return {.certificate_chain = server.pem(),
          .private_key = server.key_pem(),
          .client_roots = mutual ? issuer.pem() : std::string()};
}

transport::TlsOptions TestCertificates::client_options(bool mutual) const {
  transport::TlsOptions options{.roots = issuer.pem()};
  if (!mutual) return options;
  options.certificate_chain = client.pem();
  options.private_key = client.key_pem();
  return options;
}

}  // namespace crossdock::testing
