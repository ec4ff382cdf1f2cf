#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "crossdock/core/log.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// Listens at `address`, the address of a URI: "//127.0.0.1:7700", "//[::1]:7700", "//name:7700". Port 0, or no port,
/// picks one. No host means 127.0.0.1. Other machines can connect only if the host allows it: an address of this
/// machine, or "*" for all addresses. Throws UriError, ConnectionError (no such name, or in use),
/// PermissionError, SystemError.
std::unique_ptr<Listener> tcp_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const TcpOptions& options, LogCallback log, Serves serves = Serves::kStreams);

/// Connects and shakes hands. Tries the addresses of the name one after the other until one answers. The time limit and
/// the hook apply to everything except the name lookup. Throws UriError, ConnectionError (no such name, or
/// no server there), PermissionError (the token), HandshakeError (not a server of this protocol, or another version;
/// the text names both versions), TimeoutError, InterruptedError.
std::unique_ptr<Connection> tcp_connect(const std::string& address, const TcpOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, const ConnectOptions& wishes = {});

/// The same over TLS, for `tcp+tls:`. Throws also InvalidArgumentError for TLS options that can't work; and connecting
/// throws PermissionError if the server's certificate isn't accepted, or the server doesn't accept this end's.
std::unique_ptr<Listener> tcp_tls_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                         const TcpOptions& options, const TlsOptions& tls, LogCallback log,
                                         Serves serves = Serves::kStreams);
std::unique_ptr<Connection> tcp_tls_connect(const std::string& address, const TcpOptions& options,
                                            const TlsOptions& tls, int timeout_ms, const InterruptHook& interrupted,
                                            const ConnectOptions& wishes = {});

/// Makes a transport from tcp_listen() and tcp_connect(), for a registry. Throws InvalidArgumentError for options that
/// can't work.
std::shared_ptr<const Transport> make_tcp_transport(const TcpOptions& options = {});
/// The same for `tcp+tls:`. Reads the certificates when it first listens, and when it first connects.
std::shared_ptr<const Transport> make_tcp_tls_transport(const TcpOptions& options = {}, const TlsOptions& tls = {});

}  // namespace crossdock::transport
