#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "crossdock/core/unique_fd.h"

namespace crossdock::transport::shm {

/// The control socket of a connection or of a handshake, shared by both while one becomes the other.
///
/// A peer may pass descriptors that nobody asked for. To close the last descriptor of a file can take as long as its
/// owner likes (a TCP socket that lingers, a file of a user's own file system), and the system closes those that lie in
/// a socket's queue together with the socket, on the thread that closes it. A server's I/O thread must not wait for
/// that: its sockets are closed there only once their queue is known to hold none, and else by a thread of the
/// library's, which starts when there is something to do and ends after it.
class ControlSocket {
 public:
  /// Of an end that may wait for its peer: closed by the last owner.
  static std::shared_ptr<ControlSocket> of_client(UniqueFd fd);
  /// Of an end that must not: the last owner never waits. The peer sees the end at once in any case.
  static std::shared_ptr<ControlSocket> of_server(UniqueFd fd);

  int get() const noexcept { return fd_.get(); }

  /// How many sockets wait to be closed by that thread, in this process. Tries again to start the thread where it could
  /// not be started.
  static std::size_t waiting_to_close() noexcept;

 private:
  friend class SocketCloser;
  explicit ControlSocket(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::unique_ptr<ControlSocket> next_;  // in the closer's list: taking one more needs no memory
};

}  // namespace crossdock::transport::shm
