#include "raw_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "crossdock/core/error.h"

namespace crossdock::bench {
namespace {

void set_up(int socket) {
  const int yes = 1;
  if (::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0) throw_errno(errno, "TCP_NODELAY");
  // As the transport does: no BBR, which paces, on the loopback.
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  char algorithm[16] = {};
  socklen_t length = sizeof algorithm;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
      (ntohl(peer.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET &&
      ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, algorithm, &length) == 0 &&
      std::strncmp(algorithm, "bbr", 3) == 0) {
    [[maybe_unused]] const int set = ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
  }
}

}  // namespace

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) throw InvalidArgumentError("no address: " + host);
  return address;
}

UniqueFd accept_raw(const Arguments& arguments) {
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = address_of(arguments.text("host", "127.0.0.1"), 0);
  socklen_t size = sizeof address;
  if (::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listening.get(), 1) != 0 ||
      ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw_errno(errno, "listening");
  }
  std::printf("{\"address\":\"%s:%d\"}\n", arguments.text("host", "127.0.0.1").c_str(), ntohs(address.sin_port));
  std::fflush(stdout);
  UniqueFd socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  set_up(socket.get());
  return socket;
}

UniqueFd connect_raw(const Arguments& arguments) {
  const std::string text = arguments.text("address");
  const std::size_t colon = text.rfind(':');
  const sockaddr_in address = address_of(text.substr(0, colon), std::stoi(text.substr(colon + 1)));
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw_errno(errno, "connecting to " + text);
  }
  set_up(socket.get());
  return socket;
}

}  // namespace crossdock::bench
