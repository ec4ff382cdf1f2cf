#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

/// Certificates and keys from PEM texts.
namespace crossdock::transport::net::tls {

struct FreeCertificate {
  void operator()(X509* certificate) const noexcept { ::X509_free(certificate); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const noexcept { ::EVP_PKEY_free(key); }
};
using CertificatePtr = std::unique_ptr<X509, FreeCertificate>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeKey>;

/// Returns the certificates of a text, at least one. `named` begins the errors. Throws InvalidArgumentError.
std::vector<CertificatePtr> read_certificates(const std::string& pem, const std::string& named);
/// Returns a certificate as a PEM text.
std::string to_pem(X509* certificate);
/// Returns the private key of a text. Never asks for a password: throws InvalidArgumentError for a key that needs one.
KeyPtr read_key(const std::string& pem, const std::string& named);

}  // namespace crossdock::transport::net::tls
