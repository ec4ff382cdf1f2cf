#include "socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "crossdock/core/error.h"
#include "transport/internal/socket_address.h"

namespace crossdock::transport::net {
namespace {

constexpr int kProbes = 3;
constexpr int kLongestInterval = 10;                // s
constexpr std::size_t kDroppedAtTheEnd = 16 << 20;  // bytes: about the size of a receive buffer

void set(int socket, int level, int option, int value, const char* name, const std::string& where) {
  if (::setsockopt(socket, level, option, &value, sizeof value) != 0) {
    throw_errno(errno, "setting " + std::string(name) + " to " + std::to_string(value) + " for " + where);
  }
}

/// BBR paces its packets to keep queues in the network short. Within the machine there is no network, and pacing costs
/// a third of the speed. If the system has no other algorithm, BBR stays.
void send_unpaced(int socket) noexcept {
  char name[16] = {};
  socklen_t size = sizeof name;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0 || std::strncmp(name, "bbr", 3) != 0) return;
  for (const std::string_view other : {"cubic", "reno"}) {
    if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, other.data(), static_cast<socklen_t>(other.size())) == 0)
      return;
  }
}

}  // namespace

void set_buffers(int socket, const SocketOptions& options, const std::string& where) {
  if (options.send_buffer > 0) set(socket, SOL_SOCKET, SO_SNDBUF, options.send_buffer, "SO_SNDBUF", where);
  if (options.receive_buffer > 0) set(socket, SOL_SOCKET, SO_RCVBUF, options.receive_buffer, "SO_RCVBUF", where);
}

void set_up(int socket, const SocketOptions& options, const std::string& where) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY", where);
  if (options.keepalive_s > 0) {
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, options.keepalive_s, "TCP_KEEPIDLE", where);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::min(options.keepalive_s, kLongestInterval), "TCP_KEEPINTVL", where);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes, "TCP_KEEPCNT", where);
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE", where);
  }
  if (options.user_timeout_ms > 0) {
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, options.user_timeout_ms, "TCP_USER_TIMEOUT", where);
  }
  if (is_on_this_machine(socket)) send_unpaced(socket);
}

bool is_on_this_machine(int socket) noexcept {
  SocketAddress peer;
  SocketAddress own;
  peer.size = own.size = sizeof peer.storage;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) == 0 &&
         ::getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.size) == 0 &&
         (is_loopback(peer) || same_host(peer, own));
}

void shut_down(int socket) noexcept {
  ::shutdown(socket, SHUT_WR);
  for (std::size_t dropped = 0; dropped < kDroppedAtTheEnd;) {
    // With MSG_TRUNC, TCP drops the bytes without copying them.
    const ssize_t got = ::recv(socket, nullptr, kDroppedAtTheEnd, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0) {
      dropped += static_cast<std::size_t>(got);
    } else if (got == 0 || errno != EINTR) {
      return;
    }
  }
}

}  // namespace crossdock::transport::net
