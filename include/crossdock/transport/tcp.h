#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "crossdock/core/export.h"
#include "crossdock/core/log.h"
#include "crossdock/transport/registry.h"
#include "crossdock/transport/transport.h"

namespace crossdock::transport {

/// Whether each frame has a CRC-32C. With it, bytes that were changed on the way end the connection (ProtocolError) and
/// are never delivered. Used if both ends know it and one of them requests it.
enum class Checksum : std::uint8_t {
  kAuto,  ///< Doesn't request it: the peer decides.
  kOn,    ///< Requests it; a peer that doesn't know it, or has kOff, is rejected (HandshakeError).
  kOff,
};

struct TcpOptions {
  /// Larger messages are rejected at the sender, and end the connection at the receiver.
  std::uint64_t max_message = 64ull << 20;
  /// Longest message that a listener accepts from a client (clients only request streams and free addresses); at most
  /// max_message.
  std::uint64_t max_request = 1ull << 20;
  /// Longest body by value that is accepted from the peer; 0: none.
  std::uint64_t max_body = 64ull << 30;
  /// A secret that both ends must know, 1 to 1024 bytes; empty: none. The handshake proves knowledge of it and never
  /// sends it. An attacker who records a handshake can try guesses offline, so make it long and random. It doesn't
  /// encrypt the connection.
  std::string token = {};
  /// Detects damage by the network. Doesn't protect from an attacker who changes bytes on purpose.
  Checksum checksum = Checksum::kAuto;
  int handshake_timeout_ms = 5000;
  /// Bytes that send() may copy and keep while the socket is full, for one connection.
  std::size_t queue_bytes = 256 << 10;
  int send_buffer = 0;     ///< SO_SNDBUF, bytes; 0: the system's, which grows as needed.
  int receive_buffer = 0;  ///< SO_RCVBUF, bytes; 0: the system's, which grows as needed.
  /// Seconds of silence before the connection is probed; 0: never. The connection is dead after three unanswered
  /// probes; these are sent at the same interval, but at most 10 s apart.
  int keepalive_s = 30;
  /// TCP_USER_TIMEOUT: ends the connection if sent bytes aren't acknowledged for this time; 0: the system's default,
  /// about 15 minutes. Also ends the connection to a peer that is alive but doesn't read.
  int user_timeout_ms = 0;
  /// Host that the URI of a listener names if it listens at every address of the machine; empty: the host's name.
  std::string advertised_host = {};
};

/// Listens at `address`, the address of a URI: "//127.0.0.1:7700", "//[::1]:7700", "//name:7700". Port 0, or no port,
/// picks one. No host means 127.0.0.1. Other machines can connect only if the host allows it: an address of this
/// machine, or "*" for all addresses. Throws UriError, NotFoundError (no such name), ConnectionError (in use),
/// PermissionError, SystemError.
CROSSDOCK_EXPORT std::unique_ptr<Listener> tcp_listen(const std::string& address, std::uint64_t want_data,
                                                      std::uint64_t free_data, const TcpOptions& options,
                                                      LogCallback log);

/// Connects and shakes hands. Tries the addresses of the name one after the other until one answers. The time limit and
/// the hook apply to everything except the name lookup. Throws UriError, NotFoundError (no such name), ConnectionError
/// (no server there), PermissionError (the token), HandshakeError (not a server of this protocol, or another version;
/// the text names both versions), TimeoutError, InterruptedError.
CROSSDOCK_EXPORT std::unique_ptr<Connection> tcp_connect(const std::string& address, const TcpOptions& options,
                                                         int timeout_ms, const InterruptHook& interrupted,
                                                         ChannelRole role = ChannelRole::kBoth);

/// Makes a transport from tcp_listen() and tcp_connect(), for a registry. Throws InvalidArgumentError for options that
/// can't work.
CROSSDOCK_EXPORT std::shared_ptr<const Transport> make_tcp_transport(const TcpOptions& options = {});

}  // namespace crossdock::transport
