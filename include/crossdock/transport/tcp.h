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

/// Whether frames have a CRC-32C each, so that bytes changed on the way end the connection (ProtocolError) and are
/// never handed out. Used if both ends know it and one asks.
enum class Checksum : std::uint8_t {
  kAuto,  ///< Doesn't ask for it: the peer decides.
  kOn,    ///< Asks for it; a peer that doesn't know it, or has kOff, is refused (HandshakeError).
  kOff,
};

struct TcpOptions {
  /// Larger messages are refused at the sender, and end the connection at the receiver.
  std::uint64_t max_message = 64ull << 20;
  /// The longest message that a listener takes from a client, which asks for streams and frees addresses; at most
  /// max_message.
  std::uint64_t max_request = 1ull << 20;
  /// The longest body that is taken by value from the peer; 0: none.
  std::uint64_t max_body = 64ull << 30;
  /// A secret that both ends must know, 1 to 1024 bytes; empty: none. It is proved, never sent; whoever overhears a
  /// handshake can try guesses at leisure, so make it long and random. It doesn't encrypt what follows.
  std::string token = {};
  /// Tells damage by a network from data; no protection from anybody who changes bytes on purpose.
  Checksum checksum = Checksum::kAuto;
  int handshake_timeout_ms = 5000;
  /// What send() copies and keeps while the socket is full, bytes of one connection.
  std::size_t queue_bytes = 256 << 10;
  int send_buffer = 0;     ///< SO_SNDBUF, bytes; 0: the system's, which grows as needed.
  int receive_buffer = 0;  ///< SO_RCVBUF, bytes; 0: the system's, which grows as needed.
  /// A silent connection is probed after this many seconds; 0: never. Three probes unanswered, as far apart but 10 s at
  /// most, and it is dead.
  int keepalive_s = 30;
  /// TCP_USER_TIMEOUT: sent bytes that nobody acknowledges end the connection after this long; 0: after the system's
  /// time, about 15 minutes. It counts against a peer that lives but doesn't read, too.
  int user_timeout_ms = 0;
  /// What a listener at every address of the machine names in its URI; empty: the host's name.
  std::string advertised_host = {};
};

/// Listens. `address` is a URI's: "//127.0.0.1:7700", "//[::1]:7700", "//name:7700"; port 0, or none, picks one; no
/// host is 127.0.0.1. Other machines are served only where the host says so: an address of the machine's, or "*" for
/// all. Throws UriError, NotFoundError (no such name), ConnectionError (in use), PermissionError, SystemError.
CROSSDOCK_EXPORT std::unique_ptr<Listener> tcp_listen(const std::string& address, std::uint64_t want_data,
                                                      std::uint64_t free_data, const TcpOptions& options,
                                                      LogCallback log);

/// Connects, to each address that the name has until one answers, and shakes hands. The time and the hook hold for all
/// of it but for looking the name up. Throws UriError, NotFoundError (no such name), ConnectionError (nobody there),
/// PermissionError (the token), HandshakeError (something else, another version: says both), TimeoutError,
/// InterruptedError.
CROSSDOCK_EXPORT std::unique_ptr<Connection> tcp_connect(const std::string& address, const TcpOptions& options,
                                                         int timeout_ms, const InterruptHook& interrupted,
                                                         ChannelRole role = ChannelRole::kBoth);

/// The two as what a registry holds. Throws InvalidArgumentError for options that can't work.
CROSSDOCK_EXPORT std::shared_ptr<const Transport> make_tcp_transport(const TcpOptions& options = {});

}  // namespace crossdock::transport
