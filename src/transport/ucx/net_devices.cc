#include "net_devices.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"

namespace crossdock::transport::ucx {
namespace {

/// Returns the address of an interface; without a size if it has one of another family.
SocketAddress address_of(const ifaddrs& interface) {
  SocketAddress address;
  if (interface.ifa_addr == nullptr) return address;
  const sa_family_t family = interface.ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return address;
  address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&address.storage, interface.ifa_addr, address.size);
  return address;
}

}  // namespace

std::string interface_of(const SocketAddress& address) {
  if (is_wildcard(address)) return {};
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw_errno(errno, "listing this machine's network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(found, ::freeifaddrs);
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    const SocketAddress its = address_of(*at);
    if (its.size == 0) continue;
    // All of 127.0.0.0/8 is the loopback interface's, which lists one address of it.
    const bool loopback = is_loopback(address) && (at->ifa_flags & IFF_LOOPBACK) != 0;
    if (loopback || same_host(its, address)) return at->ifa_name;
  }
  throw ConnectionError("ucx: this machine has no address " + host_of(address));
}

SocketAddress source_address(const SocketAddress& remote) {
  const UniqueFd socket(::socket(remote.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) throw_errno(errno, "making a socket to look for a route");
  // Connecting a datagram socket only asks for the route.
  if (::connect(socket.get(), remote.get(), remote.size) != 0) {
    throw ConnectionError("ucx: this machine has no route to " + host_of(remote) + ": " +
                          std::generic_category().message(errno));
  }
  return local_address(socket.get());
}

std::string net_devices_of(const std::string& interface, const std::string& folder) {
  const std::filesystem::path described = std::filesystem::path(folder) / interface;
  int port = 0;  // of the RDMA device, counted from 0 in this file and from 1 by UCX
  std::ifstream(described / "dev_port") >> port;
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(described / "device" / "infiniband", error)) {
    devices.push_back(entry.path().filename().string() + ":" + std::to_string(port + 1));
  }
  std::ranges::sort(devices);
  std::string list = interface;
  for (const std::string& device : devices) list += "," + device;
  return list;
}

}  // namespace crossdock::transport::ucx
