#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Addresses at which a transport over IP listens or to which it connects. `scheme` is the transport's, for URIs and
/// errors: "tcp".
namespace crossdock::transport {

/// The address of a URI, parsed.
struct HostPort {
  std::string host;        ///< Without brackets; empty: not given. "*": every address of this machine.
  std::uint16_t port = 0;  ///< 0: not given; the system picks one.
};

/// Parses "//host:port", "//[::1]:port", "//:port", "//host", "//" and the empty address; a slash may follow. Throws
/// UriError.
HostPort parse_address(std::string_view scheme, const std::string& address);

/// A socket address.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// Returns the addresses that `host` may mean, in the order in which to try them; 127.0.0.1 without a host. The name
/// lookup may block as long as the system's resolver does. Throws ConnectionError.
std::vector<SocketAddress> resolve(std::string_view scheme, const HostPort& address);

/// The address to which a socket is bound, and the address of its peer. Throws SystemError.
SocketAddress local_address(int socket);
SocketAddress peer_address(int socket);

std::uint16_t port_of(const SocketAddress& address) noexcept;
/// "10.0.0.7" or "fe80::1%eth0".
std::string host_of(const SocketAddress& address);
/// Whether two addresses, whatever their ports, count as the same peer: equal addresses; for IPv6, equal first 64 bits
/// (the network).
bool same_peer(const SocketAddress& one, const SocketAddress& other) noexcept;
/// Whether two addresses are equal, whatever their ports.
bool same_host(const SocketAddress& one, const SocketAddress& other) noexcept;
bool is_wildcard(const SocketAddress& address) noexcept;
/// Whether packets to the address never leave this machine: 127.0.0.0/8, also in its IPv6 form, and ::1.
bool is_loopback(const SocketAddress& address) noexcept;

/// "tcp://10.0.0.7:7700" or "tcp://[::1]:7700", as in a URI.
std::string to_uri(std::string_view scheme, const std::string& host, std::uint16_t port);
std::string to_uri(std::string_view scheme, const SocketAddress& address);

}  // namespace crossdock::transport
