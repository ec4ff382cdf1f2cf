#include "control_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <thread>

#include "core/blocked_signals.h"
#include "core/fork.h"

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

}  // namespace

/// Closes sockets for which this may take long. Never destroyed: closing may continue until the process exits, and the
/// kernel doesn't let it delay the exit.
class SocketCloser {
 public:
  static SocketCloser& instance() {
    static auto* const closer = new SocketCloser;
    return *closer;
  }

  void take(std::unique_ptr<ControlSocket> socket) noexcept {
    const std::lock_guard lock(mutex_);
    socket->next_ = std::move(first_);
    first_ = std::move(socket);
    waiting_.fetch_add(1, std::memory_order_relaxed);
    start_thread();
  }

  std::size_t waiting() noexcept {
    const std::size_t waiting = waiting_.load(std::memory_order_relaxed);
    if (waiting > 0) {
      const std::lock_guard lock(mutex_);
      start_thread();
    }
    return waiting;
  }

  static void dispose(ControlSocket* raw) noexcept {
    std::unique_ptr<ControlSocket> socket(raw);
    // A forked child closes what it inherited, and doesn't end the connection; the thread belongs to its parent.
    if (instance().made_in_.in_child() || end_and_drain(socket->get())) return;
    instance().take(std::move(socket));
  }

 private:
  void start_thread() noexcept {
    if (running_ || !first_) return;
    try {
      const BlockedSignals blocked;  // only the threads of the program itself take signals
      std::thread([this] { run(); }).detach();
      running_ = true;
    } catch (const std::exception&) {
      // The next socket, or the next call of waiting_to_close(), tries again.
    }
  }

  void run() noexcept {
    std::unique_lock lock(mutex_);
    while (first_) {
      std::unique_ptr<ControlSocket> socket = std::move(first_);
      first_ = std::move(socket->next_);
      lock.unlock();
      socket.reset();
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      lock.lock();
    }
    running_ = false;
  }

  const ForkGuard made_in_;
  std::mutex mutex_;
  std::unique_ptr<ControlSocket> first_;
  std::atomic<std::size_t> waiting_{0};  // including the one that is being closed
  bool running_ = false;
};

std::shared_ptr<ControlSocket> ControlSocket::of_client(UniqueFd fd) {
  return std::shared_ptr<ControlSocket>(new ControlSocket(std::move(fd)));
}

std::shared_ptr<ControlSocket> ControlSocket::of_server(UniqueFd fd) {
  SocketCloser::instance();  // made before any fork that could copy its sockets
  return {new ControlSocket(std::move(fd)), SocketCloser::dispose};
}

std::size_t ControlSocket::waiting_to_close() noexcept { return SocketCloser::instance().waiting(); }

}  // namespace crossdock::transport::shm
