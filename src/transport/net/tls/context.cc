#include "context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <new>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "errors.h"
#include "pem.h"
#include "system_roots.h"

namespace crossdock::transport::net::tls {
namespace {

constexpr unsigned char kProtocols[] = {9, 'c', 'r', 'o', 's', 's', 'd', 'o', 'c', 'k'};  // ALPN
constexpr long kMaxCertificates = 64 << 10;  // bytes of certificates that the peer may send

[[noreturn]] void refuse(const std::string& what) { throw InvalidArgumentError("TlsOptions::" + what); }

/// A server without the protocol that the client wants, or without any, is none for it.
int select_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size,
                    void*) noexcept {
  unsigned char* chosen = nullptr;
  if (::SSL_select_next_proto(&chosen, out_size, kProtocols, sizeof kProtocols, in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

void use_own_certificate(SSL_CTX* context, const TlsOptions& options) {
  std::vector<CertificatePtr> chain = read_certificates(options.certificate_chain, "TlsOptions::certificate_chain");
  const KeyPtr key = read_key(options.private_key, "TlsOptions::private_key");
  if (::SSL_CTX_use_certificate(context, chain.front().get()) != 1) {
    refuse("certificate_chain can't be used: " + take_reasons());
  }
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (::SSL_CTX_add0_chain_cert(context, chain[i].get()) != 1) {
      refuse("certificate_chain can't be used: " + take_reasons());
    }
    static_cast<void>(chain[i].release());  // owned by the context now
  }
  if (::SSL_CTX_use_PrivateKey(context, key.get()) != 1 || ::SSL_CTX_check_private_key(context) != 1) {
    refuse("private_key isn't the key of the first certificate of certificate_chain: " + take_reasons());
  }
}

void trust(SSL_CTX* context, const std::string& roots, const char* option, bool name_them) {
  for (const CertificatePtr& root : read_certificates(roots, option)) {
    if (::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context), root.get()) != 1 ||
        (name_them && ::SSL_CTX_add_client_CA(context, root.get()) != 1)) {
      throw InvalidArgumentError(std::string(option) + " can't be used: " + take_reasons());
    }
  }
}

void check(End end, const TlsOptions& options) {
  if (options.certificate_chain.empty() != options.private_key.empty()) {
    refuse("certificate_chain and private_key belong together: give both");
  }
  if (end == End::kServer && options.certificate_chain.empty()) {
    refuse(
        "certificate_chain and private_key are missing, which a server needs (in Python TLS(certificate=, key=), of "
        "the command --tls-certificate and --tls-key)");
  }
}

SSL_CTX* make_context(End end, const TlsOptions& options) {
  check(end, options);
  // No clean-up when the process ends: threads may still use connections then.
  ::OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ::ERR_clear_error();
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> made(
      ::SSL_CTX_new(end == End::kServer ? ::TLS_server_method() : ::TLS_client_method()), ::SSL_CTX_free);
  SSL_CTX* const context = made.get();
  if (context == nullptr) throw SystemError("OpenSSL can't be used for TLS: " + take_reasons());
  if (::SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1) {
    throw SystemError("OpenSSL has no TLS 1.3, or its configuration switches it off: " + take_reasons());
  }
  ::SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  ::SSL_CTX_set_num_tickets(context, 0);
  ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_max_cert_list(context, kMaxCertificates);
  // Each call of OpenSSL handles one record, so that a lock is never held for long.
  ::SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE);
  ::SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
  if (!options.certificate_chain.empty()) use_own_certificate(context, options);
  if (end == End::kServer) {
    ::SSL_CTX_set_alpn_select_cb(context, select_protocol, nullptr);
    if (!options.client_roots.empty()) {
      trust(context, options.client_roots, "TlsOptions::client_roots", true);
      ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    return made.release();
  }
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (options.roots.empty()) {
    if (::SSL_CTX_set_default_verify_paths(context) != 1) {
      refuse("roots is empty, and the system's roots can't be read: " + take_reasons());
    }
    const std::string bundle = system_bundle();
    if (!bundle.empty() && ::SSL_CTX_load_verify_file(context, bundle.c_str()) != 1) {
      refuse("roots is empty, and the system's roots in " + bundle + " can't be read: " + take_reasons());
    }
  } else {
    trust(context, options.roots, "TlsOptions::roots", false);
  }
  if (::SSL_CTX_set_alpn_protos(context, kProtocols, sizeof kProtocols) != 0) throw std::bad_alloc();
  return made.release();
}

}  // namespace

Context::Context(End end, const TlsOptions& options)
    : end_(end),
      server_name_(options.server_name),
      system_roots_(end == End::kClient && options.roots.empty()),
      context_(make_context(end, options), ::SSL_CTX_free) {}

Context::~Context() = default;

ssl_st* Context::make_session() const {
  SSL* const session = ::SSL_new(context_.get());
  if (session == nullptr) throw ResourceError("OpenSSL has no memory for a connection: " + take_reasons());
  return session;
}

}  // namespace crossdock::transport::net::tls
