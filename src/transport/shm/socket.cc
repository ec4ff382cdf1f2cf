#include "socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "crossdock/core/error.h"

namespace crossdock::transport::shm {

namespace {

/// The most descriptors that the system passes in one packet (SCM_MAX_FD).
constexpr std::size_t kMostPassed = 253;

void take_descriptors(const msghdr& message, Packet* packet) {
  for (const cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
       control = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(control))) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
      PassedFd owned(fd);
      const auto place = static_cast<std::size_t>(packet->descriptors++);
      if (place < packet->fds.size()) packet->fds[place] = std::move(owned);
    }
  }
}

/// Receives the next packet; with MSG_PEEK, leaves it in the queue. `*message` then describes the descriptors that
/// arrived, as far as `control` had room for them.
Received next_packet(int socket, int flags, std::span<std::byte> control, msghdr* message, Packet* packet,
                     const std::string& where) {
  *packet = Packet{};
  iovec part{packet->bytes.data(), packet->bytes.size()};
  for (;;) {
    *message = {};
    message->msg_iov = &part;
    message->msg_iovlen = 1;
    message->msg_control = control.empty() ? nullptr : control.data();
    message->msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket, message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size >= 0) {
      packet->size = static_cast<std::size_t>(size);
      packet->too_long = (message->msg_flags & MSG_TRUNC) != 0;
      packet->descriptors_cut = (message->msg_flags & MSG_CTRUNC) != 0;
      return size > 0 ? Received::kPacket : Received::kEnd;
    }
    switch (errno) {
      case EINTR: break;
      // The peer closed the socket before it read all of our packets. The system reports this once, before the peer's
      // own packets that are still in the queue.
      case ECONNRESET: break;
      case EAGAIN: return Received::kNothing;
      default: throw_errno(errno, where + ": receiving on the control socket");
    }
  }
}

}  // namespace

Received receive_packet(int socket, Packet* packet, const std::string& where) {
  // The system closes the descriptors of a packet that found no place, on this thread. So they are copied first, and
  // the packet leaves the queue only when this process has them all: then none of those in the queue is the last.
  alignas(cmsghdr) std::byte control[CMSG_SPACE(kMostPassed * sizeof(int))];
  msghdr message{};
  const Received received = next_packet(socket, MSG_PEEK, control, &message, packet, where);
  // An empty packet may have descriptors, too.
  if (received != Received::kNothing) take_descriptors(message, packet);
  if (received != Received::kPacket || packet->descriptors_cut) return received;
  while (::recv(socket, nullptr, 0, MSG_DONTWAIT) < 0) {
    if (errno != EINTR && errno != ECONNRESET) throw_errno(errno, where + ": receiving on the control socket");
  }
  return received;
}

Received receive_plain_packet(int socket, Packet* packet, const std::string& where) {
  msghdr message{};
  Received received = next_packet(socket, MSG_PEEK, {}, &message, packet, where);
  if (received == Received::kPacket && !packet->descriptors_cut) {
    received = next_packet(socket, 0, {}, &message, packet, where);
  }
  packet->left_in_queue = packet->descriptors_cut;
  return received;
}

Sent send_packet(int socket, ByteSpan bytes, std::span<const int> fds, const std::string& where) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  for (int resets = 0;;) {
    if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::kSent;
    switch (errno) {
      case EINTR: break;
      case EAGAIN:
      case ENOBUFS: return Sent::kFull;
      // The socket isn't full. Other processes may hold these descriptors in their queues, so waiting for this peer is
      // useless.
      case ETOOMANYREFS:
        throw ResourceError(where +
                            ": too many descriptors of this user wait for processes that don't receive them; end those "
                            "processes, or raise the limit (ulimit -n)");
      case ECONNRESET:
        if (++resets > 1) return Sent::kGone;
        break;
      case EPIPE:
      case ENOTCONN:
      case ECONNREFUSED: return Sent::kGone;
      default: throw_errno(errno, where + ": sending on the control socket");
    }
  }
}

bool peer_has_gone(int socket) noexcept {
  pollfd ask{socket, POLLRDHUP, 0};
  return ::poll(&ask, 1, 0) > 0 && (ask.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Credentials peer_credentials(int socket, const std::string& where) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    throw_errno(errno, where + ": asking for the peer's user");
  }
  return {static_cast<std::uint32_t>(peer.pid), peer.uid};
}

}  // namespace crossdock::transport::shm
