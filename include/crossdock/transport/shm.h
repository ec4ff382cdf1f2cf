#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/core/log.h"
#include "crossdock/transport/registry.h"
#include "crossdock/transport/transport.h"

namespace crossdock::transport {

struct ShmOptions {
  /// Of one direction; a power of two from 64 KiB to 1 GiB. A listener's: it makes both rings of a connection, and
  /// gives each all of its memory when a client comes.
  std::uint64_t ring_bytes = 1 << 20;
  /// Larger messages are refused at the sender, and end the connection at the receiver.
  std::uint64_t max_message = 64ull << 20;
  /// The longest message that a listener takes from a client, which asks for streams and frees addresses; at most
  /// max_message.
  std::uint64_t max_request = 1ull << 20;
  /// The longest body that is taken by value from the peer; 0: none.
  std::uint64_t max_body = 64ull << 30;
  /// What the peer of one connection may have mapped at us, bytes and regions: batches that are still held count.
  std::uint64_t max_region_bytes = 1ull << 40;
  std::uint32_t max_regions = 65536;
  int handshake_timeout_ms = 5000;
  /// Server: user ids that may connect beside our own; the socket's mode follows (0600, or 0666 in a directory that
  /// they can reach). Client: user ids whose servers we trust to feed us, beside our own and root.
  std::vector<std::uint32_t> other_users = {};
  bool any_user = false;
  bool accept_files = true;  ///< Client: take kFile regions. Refused: ProtocolError names the option.
};

/// Listens at an address, the part of the URI after "shm:": a name in this user's own folder, as in "flights"; a path,
/// which has a slash; or nothing, which picks a name. A name has letters, digits, '.', '_' and '-', the first a letter
/// or a digit, 48 at most; docs/protocol-shm.md says where its socket is. For options that let other users connect,
/// nothing picks a path that they can reach, and a name is refused. Throws UriError (a name that isn't one, a path that
/// is too long or begins with two slashes, an abstract socket), NotFoundError (the path's folder isn't there),
/// PermissionError (also where the folder of names isn't this user's alone), ConnectionError if a live server holds the
/// address; a stale socket is taken over under a lock.
CROSSDOCK_EXPORT std::unique_ptr<Listener> shm_listen(const std::string& address, std::uint64_t want_data,
                                                      std::uint64_t free_data, const ShmOptions& options,
                                                      LogCallback log);

/// Connects and shakes hands. Throws NotFoundError / ConnectionError (nobody there), PermissionError (another user),
/// HandshakeError (something else, another version: says both), TimeoutError, InterruptedError.
CROSSDOCK_EXPORT std::unique_ptr<Connection> shm_connect(const std::string& address, const ShmOptions& options,
                                                         int timeout_ms, const InterruptHook& interrupted,
                                                         ChannelRole role = ChannelRole::kBoth);

/// The names at which servers of this user listen, sorted; those of servers that were killed are among them until
/// somebody takes them over: connecting tells. Throws PermissionError if the folder of names isn't this user's alone.
CROSSDOCK_EXPORT std::vector<std::string> shm_names();

/// The two as what a registry holds. Throws InvalidArgumentError for options that can't work.
CROSSDOCK_EXPORT std::shared_ptr<const Transport> make_shm_transport(const ShmOptions& options = {});

}  // namespace crossdock::transport
