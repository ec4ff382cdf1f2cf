#include "control_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <thread>

#include "crossdock/core/blocked_signals.h"
#include "crossdock/core/fork.h"

namespace crossdock::transport::shm {
namespace {

// Packets that are taken out of a queue to see that it holds no descriptors: an honest peer leaves a doorbell or two.
constexpr int kMostPackets = 8;

// Ends the connection, and looks into its queue, to which the peer can add nothing any more. True if it is empty: then
// closing the socket closes nothing else.
bool end_and_drain(int socket) noexcept {
  ::shutdown(socket, SHUT_RDWR);
  // Every packet has credentials from now on, which tells an empty one from the end.
  const int on = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return false;
  for (int i = 0; i < kMostPackets; ++i) {
    std::byte content{};
    iovec part{&content, 1};
    // No room for a descriptor: with MSG_PEEK those of the packet stay where they are.
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

/// Closes sockets whose closing may take long. Never destroyed: that may go on until the process ends, which the
/// kernel doesn't let it delay.
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
    // A forked child closes what it inherited, and ends nothing; the thread is its parent's.
    if (instance().made_in_.in_child() || end_and_drain(socket->get())) return;
    instance().take(std::move(socket));
  }

 private:
  void start_thread() noexcept {
    if (running_ || !first_) return;
    try {
      const BlockedSignals blocked;  // signals are for the program's own threads
      std::thread([this] { run(); }).detach();
      running_ = true;
    } catch (const std::exception&) {
      // The next socket, or the next look at those that wait, tries again.
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
  std::atomic<std::size_t> waiting_{0};  // with the one that is being closed
  bool running_ = false;
};

std::shared_ptr<ControlSocket> ControlSocket::of_client(UniqueFd fd) {
  return std::shared_ptr<ControlSocket>(new ControlSocket(std::move(fd)));
}

std::shared_ptr<ControlSocket> ControlSocket::of_server(UniqueFd fd) {
  SocketCloser::instance();  // made before a fork that its sockets may see
  return {new ControlSocket(std::move(fd)), SocketCloser::dispose};
}

std::size_t ControlSocket::waiting_to_close() noexcept { return SocketCloser::instance().waiting(); }

}  // namespace crossdock::transport::shm
