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
  /// Size of the ring for one direction: a power of two from 64 KiB to 1 GiB. Only a listener's value is used: the
  /// listener makes both rings of a connection, and allocates all of their memory when a client connects.
  std::uint64_t ring_bytes = 1 << 20;
  /// Larger messages are rejected at the sender, and end the connection at the receiver.
  std::uint64_t max_message = 64ull << 20;
  /// Longest message that a listener accepts from a client (clients only request streams and free addresses); at most
  /// max_message.
  std::uint64_t max_request = 1ull << 20;
  /// Longest body by value that is accepted from the peer; 0: none.
  std::uint64_t max_body = 64ull << 30;
  /// Limits the bytes and the number of regions of one connection's peer that may be mapped in this process. Batches
  /// that are still held count.
  std::uint64_t max_region_bytes = 1ull << 40;
  std::uint32_t max_regions = 65536;
  int handshake_timeout_ms = 5000;
  /// Server: user ids that may connect, in addition to the server's own. The mode of the socket follows from this:
  /// 0600, or 0666 in a directory that these users can reach. Client: user ids whose servers are trusted to supply
  /// data, in addition to the client's own and root.
  std::vector<std::uint32_t> other_users = {};
  bool any_user = false;
  bool accept_files = true;  ///< Client: accepts kFile regions. If false: ProtocolError, which names the option.
};

/// Listens at `address`, the part of the URI after "shm:". This is a name in this user's own folder, like "flights"; a
/// path, which contains a slash; or empty, which picks a name. A name has 1 to 48 letters, digits, '.', '_' and '-',
/// and begins with a letter or a digit; docs/protocol-shm.md says where its socket is. If the options let other users
/// connect, an empty address picks a path that these users can reach, and a name is rejected.
///
/// A stale socket is taken over under a lock. Throws UriError (an invalid name, a path that is too long or begins with
/// two slashes, an abstract socket), NotFoundError (the folder of the path doesn't exist), PermissionError (also if the
/// folder of names isn't private to this user), ConnectionError (a live server holds the address).
CROSSDOCK_EXPORT std::unique_ptr<Listener> shm_listen(const std::string& address, std::uint64_t want_data,
                                                      std::uint64_t free_data, const ShmOptions& options,
                                                      LogCallback log);

/// Connects and shakes hands. Throws NotFoundError or ConnectionError (no server there), PermissionError (another
/// user), HandshakeError (not a server of this protocol, or another version; the text names both versions),
/// TimeoutError, InterruptedError.
CROSSDOCK_EXPORT std::unique_ptr<Connection> shm_connect(const std::string& address, const ShmOptions& options,
                                                         int timeout_ms, const InterruptHook& interrupted,
                                                         ChannelRole role = ChannelRole::kBoth);

/// Returns the names at which servers of this user listen, sorted. Names of killed servers are among them until another
/// server takes them over; only connecting tells. Throws PermissionError if the folder of names isn't private to this
/// user.
CROSSDOCK_EXPORT std::vector<std::string> shm_names();

/// Makes a transport from shm_listen() and shm_connect(), for a registry. Throws InvalidArgumentError for options that
/// can't work.
CROSSDOCK_EXPORT std::shared_ptr<const Transport> make_shm_transport(const ShmOptions& options = {});

}  // namespace crossdock::transport
