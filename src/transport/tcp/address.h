#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

/// Where a tcp transport listens or connects.
namespace crossdock::transport::tcp {

/// A URI's address, taken apart.
struct HostPort {
  std::string host;        ///< Without brackets; empty: not given. "*": every address of this machine.
  std::uint16_t port = 0;  ///< 0: not given, or to be picked.
};

/// "//host:port", "//[::1]:port", "//:port", "//host", "//" and nothing at all; a slash may follow. Throws UriError.
HostPort parse_address(const std::string& address);

/// An address of the system's.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// What `host` may mean, in the order to be tried; without a host, 127.0.0.1. Looking a name up takes as long as the
/// system takes. Throws NotFoundError.
std::vector<Endpoint> resolve(const HostPort& address);

/// The address that a socket is bound to, and that of its peer. Throws SystemError.
Endpoint local_endpoint(int socket);
Endpoint peer_endpoint(int socket);

std::uint16_t port_of(const Endpoint& endpoint) noexcept;
/// "10.0.0.7" or "fe80::1%eth0".
std::string host_of(const Endpoint& endpoint);
/// Whether two addresses, of whatever ports, are taken for one peer's: the same, of IPv6 the same 64 bits of network.
bool same_peer(const Endpoint& one, const Endpoint& other) noexcept;
/// Whether two addresses, of whatever ports, are the same one.
bool same_host(const Endpoint& one, const Endpoint& other) noexcept;
bool is_wildcard(const Endpoint& endpoint) noexcept;
/// Whether it never leaves this machine: 127.0.0.0/8, also as IPv6 has it, and ::1.
bool is_loopback(const Endpoint& endpoint) noexcept;

/// "tcp://10.0.0.7:7700" or "tcp://[::1]:7700", as it stands in a URI.
std::string to_uri(const std::string& host, std::uint16_t port);
std::string to_uri(const Endpoint& endpoint);

}  // namespace crossdock::transport::tcp
