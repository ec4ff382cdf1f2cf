#include "transport/hosts.h"

#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "transport/internal/socket_address.h"

namespace crossdock::transport {
namespace {

std::vector<SocketAddress> addresses_of(const std::string& host) {
  try {
    return resolve("host", {host, 0});
  } catch (const Error&) {
    return {};  // a name that isn't known
  }
}

std::vector<SocketAddress> addresses_of_this_machine() {
  std::vector<SocketAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    SocketAddress address;
    if (one->ifa_addr->sa_family == AF_INET) address.size = sizeof(sockaddr_in);
    if (one->ifa_addr->sa_family == AF_INET6) address.size = sizeof(sockaddr_in6);
    if (address.size == 0) continue;
    std::memcpy(&address.storage, one->ifa_addr, address.size);
    found.push_back(address);
  }
  return found;
}

bool any_in(const std::vector<SocketAddress>& some, const std::vector<SocketAddress>& all) {
  return std::ranges::any_of(some, [&](const SocketAddress& one) {
    return std::ranges::any_of(all, [&](const SocketAddress& other) { return same_host(one, other); });
  });
}

}  // namespace

bool same_machine(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const std::vector<SocketAddress> of_one = addresses_of(one);
  const std::vector<SocketAddress> of_other = addresses_of(other);
  if (any_in(of_one, of_other)) return true;
  const std::vector<SocketAddress> here = addresses_of_this_machine();
  const auto is_here = [&](const std::vector<SocketAddress>& addresses) {
    return std::ranges::any_of(addresses, [](const auto& address) { return is_loopback(address); }) ||
           any_in(addresses, here);
  };
  return is_here(of_one) && is_here(of_other);
}

bool is_loopback_host(const std::string& host) {
  const std::vector<SocketAddress> addresses = addresses_of(host);
  return !addresses.empty() &&
         std::ranges::all_of(addresses, [](const SocketAddress& address) { return is_loopback(address); });
}

std::string open_address_warning(const std::string& uri) {
  return uri +
         " is open to everybody who reaches it, also from other machines: clients have to prove nothing. Set a token "
         "(or, with TLS, require certificates), or listen at 127.0.0.1";
}

std::string address_towards(const std::string& host) {
  constexpr std::uint16_t kAnyPort = 9;  // "discard": a datagram socket only remembers it
  int failure = EHOSTUNREACH;
  for (const SocketAddress& address : resolve("host", {host, kAnyPort})) {
    const UniqueFd socket(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket && ::connect(socket.get(), address.get(), address.size) == 0)
      return host_of(local_address(socket.get()));
    failure = errno;
  }
  throw_errno(failure, "finding this machine's address on the way to " + host);
}

}  // namespace crossdock::transport
