#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "core/unique_fd.h"

namespace crossdock::transport::shm {

/// The control socket of a connection or of a handshake. Both share it while the handshake turns into a connection.
///
/// A peer may pass descriptors that were never requested. Closing the last descriptor of a file can take as long as the
/// file's owner wants (a TCP socket that lingers, a user-space file system). When a socket is closed, the system closes
/// the descriptors in its queue on the same thread. The I/O thread of a server or of peers must not wait for that. It
/// closes its sockets itself only if their queue is known to contain no descriptors. Otherwise a thread of the library
/// closes them; this thread is started when needed and ends afterwards. It also closes each PassedFd.
class ControlSocket {
 public:
  /// For an end that may wait for its peer: the last owner closes the socket.
  static std::shared_ptr<ControlSocket> closed_here(UniqueFd fd);
  /// For an end that must not wait: the last owner never waits. The peer sees the end at once in either case.
  static std::shared_ptr<ControlSocket> closed_elsewhere(UniqueFd fd);

  int get() const noexcept { return fd_.get(); }

  /// How many sockets and passed descriptors of this process wait to be closed by that thread. If the thread couldn't
  /// be started, tries again.
  static std::size_t waiting_to_close() noexcept;

  std::unique_ptr<ControlSocket> next;  ///< In the list of that thread.

 private:
  explicit ControlSocket(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  friend class PassedFd;

  UniqueFd fd_;
};

/// A descriptor that a peer has passed, of a file that nobody has looked at yet. Where it isn't taken, it is closed by
/// the thread that closes control sockets: a thread that receives descriptors waits for none to be closed. Move-only.
/// Use it on one thread at a time.
class PassedFd {
 public:
  PassedFd() noexcept = default;
  explicit PassedFd(int fd) noexcept : fd_(fd) {}
  PassedFd(PassedFd&&) noexcept = default;
  PassedFd& operator=(PassedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~PassedFd() {
    if (fd_) close_elsewhere(std::move(fd_));
  }

  int get() const noexcept { return fd_.get(); }
  /// For a function that checks what it is, and takes it only then.
  UniqueFd& unchecked() noexcept { return fd_; }

 private:
  static void close_elsewhere(UniqueFd fd) noexcept;

  UniqueFd fd_;
};

}  // namespace crossdock::transport::shm
