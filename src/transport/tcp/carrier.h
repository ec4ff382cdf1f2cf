#pragma once

#include <memory>
#include <string>

#include "core/unique_fd.h"
#include "settings.h"
#include "transport/net/byte_stream.h"
#include "transport/net/handshake.h"
#include "transport/net/stream_names.h"
#include "transport/net/tls/context.h"
#include "transport/net/tls/stream.h"

/// What differs between `tcp:` and `tcp+tls:`.
namespace crossdock::transport::tcp {

/// What carries the records of the handshake and the frames: a socket, or TLS over it. Immutable; may be copied.
struct Carrier {
  net::StreamNames names = kNames;
  std::shared_ptr<const net::tls::Context> tls = nullptr;  ///< Null: plain.
  bool wants_certificate = false;                          ///< Of clients, by TLS.

  /// Throws InvalidArgumentError.
  static Carrier with_tls(net::tls::End end, const TlsOptions& options);
};

/// The roles in the proofs of a token. Over TLS, a proof holds for one connection of TLS only: somebody in between with
/// a certificate that the client trusts can't pass it on.
class TokenRoles {
 public:
  /// For a connection without TLS.
  TokenRoles() = default;
  explicit TokenRoles(const net::tls::Stream::Binding& binding);
  /// Valid as long as this.
  net::HandshakeNames names() const noexcept;

 private:
  std::string client_{"crossdock tcp 1 client"};
  std::string server_{"crossdock tcp 1 server"};
};

/// A stream over a connected socket, before and after its TLS handshake.
class Channel {
 public:
  /// `server_name`: see net::tls::Stream. Throws as its constructor.
  Channel(const Carrier& carrier, UniqueFd socket, const std::string& where, const std::string& server_name = {});

  net::SocketStream& stream() const noexcept { return *stream_; }
  const std::shared_ptr<net::SocketStream>& shared() const noexcept { return stream_; }
  /// Null: plain.
  net::tls::Stream* tls() const noexcept { return tls_; }

 private:
  std::shared_ptr<net::SocketStream> stream_;
  net::tls::Stream* tls_ = nullptr;  // the same stream
};

}  // namespace crossdock::transport::tcp
