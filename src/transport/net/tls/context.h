#pragma once

#include <memory>
#include <string>

#include "crossdock/transport/options.h"
#include "transport/tls.h"

struct ssl_ctx_st;
struct ssl_st;

namespace crossdock::transport::net::tls {

enum class End : bool { kServer, kClient };

/// What all connections of a server or of a client share: certificates, keys and rules, in OpenSSL's form. TLS 1.3
/// alone, with the cipher suites that OpenSSL has for it; the protocol "crossdock" (ALPN); no session tickets.
/// Immutable once made, and thread-safe.
class Context {
 public:
  /// Throws InvalidArgumentError for options that can't work; the text names the option and the reason.
  Context(End end, const TlsOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  End end() const noexcept { return end_; }
  /// The name that a server's certificate must have, if it isn't the URI's host.
  const std::string& server_name() const noexcept { return server_name_; }
  /// Whether the system's store of roots decides.
  bool has_system_roots() const noexcept { return system_roots_; }
  /// Returns a new SSL object, which the caller owns. Throws ResourceError.
  ssl_st* make_session() const;

 private:
  const End end_;
  const std::string server_name_;
  const bool system_roots_;
  const std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_;
};

/// As check_tls_texts().
void check_texts(const TlsOptions& options, const TlsNames& names);

}  // namespace crossdock::transport::net::tls
