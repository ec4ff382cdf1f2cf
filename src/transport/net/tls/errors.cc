#include "errors.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <array>
#include <ctime>
#include <optional>

#include "crossdock/core/error.h"
#include "pem.h"

namespace crossdock::transport::net::tls {
namespace {

constexpr int kFirstAlert = 1000;  // reasons from here on are alerts of the peer

/// The first error of OpenSSL's SSL library in the queue, which names the cause. 0: there is none.
int take_reason(std::string* text) {
  int reason = 0;
  while (const unsigned long error = ::ERR_get_error()) {
    std::array<char, 160> line{};
    const char* const words = ::ERR_reason_error_string(error);
    if (words == nullptr) ::ERR_error_string_n(error, line.data(), line.size());
    *text += (text->empty() ? "" : "; ") + std::string(words != nullptr ? words : line.data());
    if (reason == 0 && ERR_GET_LIB(error) == ERR_LIB_SSL) reason = ERR_GET_REASON(error);
  }
  if (text->empty()) *text = "OpenSSL gives no reason";
  return reason;
}

std::string day_of(const ASN1_TIME* time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (time == nullptr || ::ASN1_TIME_to_tm(time, &parts) != 1) return "?";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return text.data();
}

/// What is wrong with the peer's certificate, as the end of a sentence, and what to do.
std::string verdict(ssl_st* session, const Context& context, const std::string& name, long result) {
  const CertificatePtr certificate(::SSL_get1_peer_certificate(session));
  const bool server = context.end() == End::kServer;
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "has a certificate that has expired (" +
             day_of(certificate ? ::X509_get0_notAfter(certificate.get()) : nullptr) +
             ", or one of its issuers'): renew it there, or correct this machine's clock";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "has a certificate that isn't valid yet (from " +
             day_of(certificate ? ::X509_get0_notBefore(certificate.get()) : nullptr) +
             " on): correct the clock of one of the machines";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "has a certificate of another name than " + name +
             ": connect by a name that is in the certificate, or give that name as the server name for TLS (in Python "
             "TLS(server_name=))";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return std::string(
                 "has a certificate that it has signed itself, and that is not among the roots: add it to the ") +
             (server ? "client roots to trust this very certificate" : "roots to trust this very certificate");
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: {
      const char* const roots =
          server ? "TLS client roots (in Python TLS(client_roots=), of the command --tls-client-roots)"
                 : "TLS roots (in Python TLS(roots=), of the command --tls-roots)";
      return std::string("has a certificate whose issuer isn't trusted") +
             (context.has_system_roots() ? " by this system" : "") + ": add the issuer's certificate to the " + roots +
             ", and let the other end send intermediate ones with its own";
    }
    case X509_V_ERR_INVALID_PURPOSE:
      return std::string("has a certificate that isn't for ") + (server ? "clients" : "servers") +
             " (extended key usage): issue another one";
    default: return std::string("has a certificate that can't be accepted: ") + ::X509_verify_cert_error_string(result);
  }
}

/// Whether the peer says that it doesn't accept this end's certificate; its reason in words.
std::optional<std::string> refused_certificate(int reason) {
  switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return "it requires a certificate: give one and its key (in Python TLS(certificate=, key=), of the command "
             "--tls-certificate and --tls-key)";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED: return "this end's certificate has expired: renew it";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED: return "this end's certificate was revoked";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "it doesn't trust the issuer of this end's certificate: the other end must have the issuer among its "
             "roots";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR: return "it doesn't accept this end's certificate";
    default: return std::nullopt;
  }
}

}  // namespace

std::string take_reasons() {
  std::string text;
  take_reason(&text);
  return text;
}

void throw_handshake_failure(ssl_st* session, const Context& context, const std::string& where,
                             const std::string& name) {
  std::string text;
  const int reason = take_reason(&text);
  if (const auto refused = refused_certificate(reason)) {
    throw PermissionError(where + " refused the TLS handshake: " + *refused);
  }
  switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      throw PermissionError(where + " " + verdict(session, context, name, ::SSL_get_verify_result(session)));
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      throw PermissionError(where + " has no certificate, and this end requires one");
    case SSL_R_NO_APPLICATION_PROTOCOL:
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
      throw HandshakeError(where + " speaks TLS, but another protocol than Crossdock's inside it");
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      throw HandshakeError(where + " doesn't speak TLS 1.3 (" + text +
                           "): is it a Crossdock server at a tcp+tls: address, and this the right port?");
    default: throw HandshakeError("the TLS handshake with " + where + " failed: " + text);
  }
}

void throw_read_failure(const std::string& where) {
  std::string text;
  const int reason = take_reason(&text);
  if (const auto refused = refused_certificate(reason)) {
    throw PermissionError(where + " refused the TLS connection: " + *refused);
  }
  if (reason >= kFirstAlert) throw ConnectionError(where + " has ended the TLS connection: " + text);
  throw ProtocolError(where + " sent bytes that break TLS (" + text + "): they were changed on the way");
}

}  // namespace crossdock::transport::net::tls
