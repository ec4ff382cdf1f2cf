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

[[noreturn]] void refuse(const std::string& named) {
  throw InvalidArgumentError(named + " can't be used: " + take_reasons());
}

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

bool has_own_certificate(const TlsOptions& options) noexcept {
  return !options.certificate_chain.empty() || !options.private_key.empty();
}

void use_own_certificate(SSL_CTX* context, const TlsOptions& options, const TlsNames& names) {
  if (options.private_key.empty()) throw InvalidArgumentError(names.certificate + " is given without a key: give both");
  if (options.certificate_chain.empty())
    throw InvalidArgumentError(names.key + " is given without a certificate: give both");
  std::vector<CertificatePtr> chain = read_certificates(options.certificate_chain, names.certificate);
  const KeyPtr key = read_key(options.private_key, names.key);
  if (::SSL_CTX_use_certificate(context, chain.front().get()) != 1) refuse(names.certificate);
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (::SSL_CTX_add0_chain_cert(context, chain[i].get()) != 1) refuse(names.certificate);
    static_cast<void>(chain[i].release());  // owned by the context now
  }
  if (::SSL_CTX_use_PrivateKey(context, key.get()) != 1 || ::SSL_CTX_check_private_key(context) != 1) {
    throw InvalidArgumentError(names.key + " isn't the key of the first certificate that is given: " + take_reasons());
  }
}

void trust(SSL_CTX* context, const std::string& roots, const std::string& named, bool name_them) {
  for (const CertificatePtr& root : read_certificates(roots, named)) {
    if (::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context), root.get()) != 1 ||
        (name_them && ::SSL_CTX_add_client_CA(context, root.get()) != 1)) {
      refuse(named);
    }
  }
}

using ContextPtr = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;

ContextPtr new_context(End end) {
  // No clean-up when the process ends: threads may still use connections then.
  ::OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ::ERR_clear_error();
  ContextPtr made(::SSL_CTX_new(end == End::kServer ? ::TLS_server_method() : ::TLS_client_method()), ::SSL_CTX_free);
  if (!made) throw SystemError("OpenSSL can't be used for TLS: " + take_reasons());
  return made;
}

SSL_CTX* make_context(End end, const TlsOptions& options) {
  const TlsNames names;
  if (end == End::kServer && !has_own_certificate(options)) {
    throw InvalidArgumentError(
        "a server over TLS needs a certificate and its key (in Python TLS(certificate=, key=), of the command "
        "--tls-certificate and --tls-key)");
  }
  ContextPtr made = new_context(end);
  SSL_CTX* const context = made.get();
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
  if (has_own_certificate(options)) use_own_certificate(context, options, names);
  if (end == End::kServer) {
    ::SSL_CTX_set_alpn_select_cb(context, select_protocol, nullptr);
    if (!options.client_roots.empty()) {
      trust(context, options.client_roots, names.client_roots, true);
      ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    return made.release();
  }
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (options.roots.empty()) {
    if (::SSL_CTX_set_default_verify_paths(context) != 1) {
      throw InvalidArgumentError("no TLS roots are given, and the system's can't be read: " + take_reasons());
    }
    const std::string bundle = system_bundle();
    if (!bundle.empty() && ::SSL_CTX_load_verify_file(context, bundle.c_str()) != 1) {
      throw InvalidArgumentError("no TLS roots are given, and the system's in " + bundle +
                                 " can't be read: " + take_reasons());
    }
  } else {
    trust(context, options.roots, names.roots, false);
  }
  if (::SSL_CTX_set_alpn_protos(context, kProtocols, sizeof kProtocols) != 0) throw std::bad_alloc();
  return made.release();
}

}  // namespace

void check_texts(const TlsOptions& options, const TlsNames& names) {
  const ContextPtr made = new_context(End::kServer);
  if (has_own_certificate(options)) use_own_certificate(made.get(), options, names);
  if (!options.roots.empty()) trust(made.get(), options.roots, names.roots, false);
  if (!options.client_roots.empty()) trust(made.get(), options.client_roots, names.client_roots, true);
}

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
