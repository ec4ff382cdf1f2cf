#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crossdock/transport/options.h"

/// Certificates for tests, made when they run.
namespace crossdock::testing {

/// What a certificate says.
struct CertificateFacts {
  std::string subject = "a test";
  std::vector<std::string> names{};  ///< As OpenSSL writes them: "DNS:localhost", "IP:127.0.0.1".
  long valid_from_s = -3600;         ///< From now.
  long valid_until_s = 3600;
  bool is_issuer = false;
};

/// A certificate with its key. May be copied.
class Certificate {
 public:
  /// Signed by itself.
  static Certificate self_signed(const CertificateFacts& facts);
  /// Signed by this one.
  Certificate issue(const CertificateFacts& facts) const;

  std::string pem() const;
  std::string key_pem() const;

 private:
  struct Parts;
  explicit Certificate(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  static Certificate make(const CertificateFacts& facts, const Parts* issuer);

  std::shared_ptr<const Parts> parts_;
};

/// An issuer, with what a server at localhost and a client of it need.
struct TestCertificates {
  TestCertificates();
  Certificate issuer;
  Certificate server;  ///< For localhost, 127.0.0.1 and ::1.
  Certificate client;

  /// With `mutual`, both ends have a certificate and require one.
  transport::TlsOptions server_options(bool mutual = false) const;
  transport::TlsOptions client_options(bool mutual = false) const;
};

}  // namespace crossdock::testing
