#include "control_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <chrono>
#include <new>

#include "core/destroyer.h"

namespace crossdock::transport::shm {
namespace {

// Limit of packets that are read from a queue to check that it contains no descriptors. A correct peer leaves only a
// doorbell or two.
constexpr int kMostPackets = 8;

// Ends the connection and empties its queue, to which the peer can't add anything any more. Returns true if the queue
// is empty: then closing the socket closes no other descriptor.
bool end_and_drain(int socket) noexcept {
  ::shutdown(socket, SHUT_RDWR);
  // From now on every packet has credentials. This distinguishes an empty packet from the end.
  const int on = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return false;
  for (int i = 0; i < kMostPackets; ++i) {
    std::byte content{};
    iovec part{&content, 1};
    // There is no room for a descriptor: with MSG_PEEK, descriptors of the packet stay in the queue.
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(ucred))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t size = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_PEEK);
    if (size < 0) {
      if (errno == EINTR || errno == ECONNRESET) continue;
      return false;
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) return false;
    if (size == 0 && message.msg_controllen == 0) return true;
    if (::recv(socket, &content, 1, MSG_DONTWAIT) < 0) return false;
  }
  return false;
}

Destroyer<ControlSocket>& closer() {
  static auto* const made = new Destroyer<ControlSocket>(std::chrono::milliseconds(0));
  return *made;
}

void dispose(ControlSocket* raw) noexcept {
  std::unique_ptr<ControlSocket> socket(raw);
  // A forked child closes what it inherited, and doesn't end the connection.
  if (!closer().usable() || end_and_drain(socket->get())) return;
  closer().add(std::move(socket), true);
}

}  // namespace

std::shared_ptr<ControlSocket> ControlSocket::closed_here(UniqueFd fd) {
  return std::shared_ptr<ControlSocket>(new ControlSocket(std::move(fd)));
}

std::shared_ptr<ControlSocket> ControlSocket::closed_elsewhere(UniqueFd fd) {
  closer();  // made before any fork that could copy its sockets
  return {new ControlSocket(std::move(fd)), dispose};
}

void PassedFd::close_elsewhere(UniqueFd fd) noexcept {
  // A forked child has no such thread, and closes what it inherited; so does a process without memory for the list.
  std::unique_ptr<ControlSocket> passed(closer().usable() ? new (std::nothrow) ControlSocket(UniqueFd()) : nullptr);
  if (!passed) return;
  passed->fd_ = std::move(fd);
  closer().add(std::move(passed), true);
}

std::size_t ControlSocket::waiting_to_close() noexcept { return closer().left(); }

}  // namespace crossdock::transport::shm
