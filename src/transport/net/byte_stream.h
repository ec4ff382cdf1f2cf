#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/unique_fd.h"

namespace crossdock::transport::net {

/// The result of a read or a write.
struct IoResult {
  enum class State : std::uint8_t {
    kBytes,       ///< `bytes` were moved, at least one.
    kWouldBlock,  ///< No bytes are available now, or there is no room.
    kEnd,         ///< No bytes can be moved now or later.
  };
  State state = State::kWouldBlock;
  std::size_t bytes = 0;
  int error = 0;  ///< With kEnd: the system's error; 0: an orderly end; EFAULT: the data isn't readable any more.
  /// Of a read: the stream itself holds more bytes, or has more to do, and its socket may not show it.
  bool more = false;
};

/// A stream of bytes in both directions: a socket, or in tests any stream that a test makes. No call blocks. Two
/// threads may read and write at the same time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Reads into `parts`, until they are full or no bytes are available. Throws what the stream's class says.
  virtual IoResult read(std::span<const iovec> parts) = 0;
  /// Writes bytes of `parts`. Those that weren't accepted must be the first ones of the next write, and at least as
  /// many: the stream may have encrypted them.
  virtual IoResult write(std::span<const iovec> parts) = 0;
};

/// A stream over a connected socket: the bytes as they are, or encrypted.
class SocketStream : public ByteStream {
 public:
  /// The socket, to wait for.
  virtual int get() const noexcept = 0;
  /// Whether read() may return bytes that have left the socket already. For the thread that reads.
  virtual bool holds_input() const noexcept { return false; }
  /// Whether write() reads the caller's memory in this process. If the system reads it, unreadable memory is EFAULT.
  virtual bool touches_memory() const noexcept { return false; }
  /// Tells the peer's stream that no bytes follow, if it has a way to do so, and if there is room. The socket stays
  /// open.
  virtual void finish() noexcept {}
};

/// A connected TCP socket. Owns its descriptor. Throws SystemError, whose text begins with `where`, for errors that
/// don't mean the end of the connection.
class Socket final : public SocketStream {
 public:
  Socket(UniqueFd fd, std::string where) : fd_(std::move(fd)), where_(std::move(where)) {}
  Socket(Socket&&) noexcept = default;
  Socket& operator=(Socket&&) = delete;
  ~Socket() override = default;
  IoResult read(std::span<const iovec> parts) override;
  IoResult write(std::span<const iovec> parts) override;
  int get() const noexcept override { return fd_.get(); }
  /// Returns a second descriptor of the socket, which lives until both are closed. Throws ResourceError.
  UniqueFd duplicate() const { return fd_.duplicate(); }

 private:
  UniqueFd fd_;
  std::string where_;
};

}  // namespace crossdock::transport::net
