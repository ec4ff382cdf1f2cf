#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/core/log.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// Listens at `address`, the part of the URI after "shm:". This is a name in this user's own folder, like "flights"; a
/// path, which contains a slash; or empty, which picks a name. A name has 1 to 48 letters, digits, '.', '_' and '-',
/// and begins with a letter or a digit; docs/reference/protocol-shm.md says where its socket is. If the options let
/// other users connect, an empty address picks a path that these users can reach, and a name is rejected.
///
/// A stale socket is taken over under a lock. Throws UriError (an invalid name, a path that is too long or begins with
/// two slashes, an abstract socket), NotFoundError (the folder of the path doesn't exist), PermissionError (also if the
/// folder of names isn't private to this user), ConnectionError (a live server holds the address).
std::unique_ptr<Listener> shm_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const ShmOptions& options, LogCallback log, Serves serves = Serves::kStreams);

/// Connects and shakes hands. Throws ConnectionError (no server there), PermissionError (another
/// user), HandshakeError (not a server of this protocol, or another version; the text names both versions),
/// TimeoutError, InterruptedError.
std::unique_ptr<Connection> shm_connect(const std::string& address, const ShmOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, const ConnectOptions& wishes = {});

/// Returns the names at which servers of this user listen, sorted. Names of killed servers are among them until another
/// server takes them over; only connecting tells. Throws PermissionError if the folder of names isn't private to this
/// user.
std::vector<std::string> shm_names();

/// Makes a transport from shm_listen() and shm_connect(), for a registry. Throws InvalidArgumentError for options that
/// can't work.
std::shared_ptr<const Transport> make_shm_transport(const ShmOptions& options = {});

}  // namespace crossdock::transport
