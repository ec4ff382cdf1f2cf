#include "transport/internal/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include "core/text.h"
#include "core/user_info.h"
#include "crossdock/core/error.h"

namespace crossdock::transport {
namespace {

constexpr std::size_t kMostHost = 255;  ///< Bytes: of a name of DNS, or an IPv6 address with its interface.

/// port: what is probably meant as a port of this machine, if anything is.
[[noreturn]] void fail(std::string_view scheme, const std::string& address, const std::string& what,
                       std::string_view port = {}) {
  const std::string begin = std::string(scheme) + "://";
  throw UriError("bad address " + shown(without_user(std::string(scheme) + ":" + address)) + ": " + what + "; " +
                 (port.empty() ? "write " + begin + "host:port, with an IPv6 address in brackets"
                               : "did you mean " + begin + "localhost:" + std::string(port) + "?"));
}

std::optional<std::uint16_t> port_in(std::string_view text) noexcept {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, port);
  return error == std::errc{} && stopped == end ? std::optional(port) : std::nullopt;
}

std::uint16_t parse_port(std::string_view scheme, const std::string& address, std::string_view text) {
  const auto port = port_in(text);
  if (!port) fail(scheme, address, "its port must be a number from 0 to 65535");
  return *port;
}

/// Returns whether a text without a port is one. As a host it is an address of 0.0.0.0/8, which no machine has; 0 is
/// all of a machine's addresses.
bool is_port_alone(std::string_view text) noexcept { return port_in(text).value_or(0) != 0; }

bool is_v6(const SocketAddress& address) noexcept { return address.storage.ss_family == AF_INET6; }
const sockaddr_in& v4_of(const SocketAddress& address) noexcept {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& v6_of(const SocketAddress& address) noexcept {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

SocketAddress address_of(int socket, int (*ask)(int, sockaddr*, socklen_t*), const char* doing) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (ask(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) throw_errno(errno, doing);
  return address;
}

}  // namespace

HostPort parse_address(std::string_view scheme, const std::string& address) {
  if (address.empty()) return {};
  if (!address.starts_with("//")) {
    fail(scheme, address, "two slashes must follow the scheme", is_port_alone(address) ? address : "");
  }
  std::string_view rest = std::string_view(address).substr(2);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find('/') != std::string_view::npos) fail(scheme, address, "only a query may follow the port");
  if (rest.find('@') != std::string_view::npos)
    fail(scheme, address, "it has a user, but a token must not be in a URI");
  HostPort out;
  std::string_view port;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) fail(scheme, address, "the closing bracket is missing");
    out.host = rest.substr(1, close - 1);
    if (out.host.find(':') == std::string::npos) fail(scheme, address, "only an IPv6 address may be in brackets");
    port = rest.substr(close + 1);
    if (!port.empty() && !port.starts_with(':')) fail(scheme, address, "a port must follow a colon");
  } else {
    const std::size_t colon = rest.find(':');
    if (colon != rest.rfind(':')) fail(scheme, address, "an IPv6 address must be in brackets");
    out.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon);
  }
  if (port.empty() && is_port_alone(out.host)) {
    fail(scheme, address, out.host + " is a host here, not a port", out.host);
  }
  if (out.host.size() > kMostHost) fail(scheme, address, "no host has so long a name");
  if (!port.empty()) out.port = parse_port(scheme, address, port.substr(1));
  return out;
}

std::vector<SocketAddress> resolve(std::string_view scheme, const HostPort& address) {
  const std::string host = address.host.empty() ? "127.0.0.1" : address.host == "*" ? "::" : address.host;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
    throw ConnectionError(std::string(scheme) + ": no address was found for the host " + shown(host) + ": " + why);
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress& found_one = addresses.emplace_back();
    found_one.size = at->ai_addrlen;
    std::memcpy(&found_one.storage, at->ai_addr, at->ai_addrlen);
  }
  return addresses;
}

SocketAddress local_address(int socket) { return address_of(socket, ::getsockname, "asking for a socket's address"); }
SocketAddress peer_address(int socket) { return address_of(socket, ::getpeername, "asking for a peer's address"); }

std::uint16_t port_of(const SocketAddress& address) noexcept {
  return ntohs(is_v6(address) ? v6_of(address).sin6_port : v4_of(address).sin_port);
}

std::string host_of(const SocketAddress& address) {
  char host[NI_MAXHOST] = {};
  const int error =
      ::getnameinfo(address.get(), address.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST | NI_NUMERICSERV);
  return error == 0 ? host : "?";
}

bool same_host(const SocketAddress& one, const SocketAddress& other) noexcept {
  if (one.storage.ss_family != other.storage.ss_family) return false;
  if (!is_v6(one)) return v4_of(one).sin_addr.s_addr == v4_of(other).sin_addr.s_addr;
  const sockaddr_in6& first = v6_of(one);
  const sockaddr_in6& second = v6_of(other);
  return IN6_ARE_ADDR_EQUAL(&first.sin6_addr, &second.sin6_addr) && first.sin6_scope_id == second.sin6_scope_id;
}

bool same_peer(const SocketAddress& one, const SocketAddress& other) noexcept {
  if (!is_v6(one) || !is_v6(other)) return same_host(one, other);
  const in6_addr& first = v6_of(one).sin6_addr;
  const in6_addr& second = v6_of(other).sin6_addr;
  // A socket for both families shows an IPv4 address as an address in ::ffff:0:0/96.
  const bool by_network = !IN6_IS_ADDR_V4MAPPED(&first) && !IN6_IS_ADDR_V4MAPPED(&second);
  constexpr std::size_t kNetwork = 8;
  return std::memcmp(&first, &second, by_network ? kNetwork : sizeof first) == 0;
}

bool is_wildcard(const SocketAddress& address) noexcept {
  return is_v6(address) ? IN6_IS_ADDR_UNSPECIFIED(&v6_of(address).sin6_addr)
                        : v4_of(address).sin_addr.s_addr == htonl(INADDR_ANY);
}

bool is_loopback(const SocketAddress& address) noexcept {
  in_addr v4 = v4_of(address).sin_addr;
  if (is_v6(address)) {
    const in6_addr& v6 = v6_of(address).sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&v6)) return IN6_IS_ADDR_LOOPBACK(&v6);
    std::memcpy(&v4, v6.s6_addr + 12, sizeof v4);
  }
  return (ntohl(v4.s_addr) >> 24) == IN_LOOPBACKNET;
}

std::string to_uri(std::string_view scheme, const std::string& host, std::uint16_t port) {
  std::string in_uri;
  for (const char c : host) in_uri += c == '%' ? std::string("%25") : std::string(1, c);
  if (host.find(':') != std::string::npos) in_uri = "[" + in_uri + "]";
  return std::string(scheme) + "://" + in_uri + ":" + std::to_string(port);
}

std::string to_uri(std::string_view scheme, const SocketAddress& address) {
  return to_uri(scheme, host_of(address), port_of(address));
}

}  // namespace crossdock::transport
