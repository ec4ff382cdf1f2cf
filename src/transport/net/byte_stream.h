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
};

/// A stream of bytes in both directions: a socket, or in tests any stream that a test makes. No call blocks. Two
/// threads may read and write at the same time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual IoResult read(std::span<const iovec> parts) = 0;
  virtual IoResult write(std::span<const iovec> parts) = 0;
};

/// A connected TCP socket. Owns its descriptor. Throws SystemError, whose text begins with `where`, for errors that
/// don't mean the end of the connection.
class Socket final : public ByteStream {
 public:
  Socket(UniqueFd fd, std::string where) : fd_(std::move(fd)), where_(std::move(where)) {}
  Socket(Socket&&) noexcept = default;
  Socket& operator=(Socket&&) = delete;
  ~Socket() override = default;
  IoResult read(std::span<const iovec> parts) override;
  IoResult write(std::span<const iovec> parts) override;
  int get() const noexcept { return fd_.get(); }
  /// Returns a second descriptor of the socket, which lives until both are closed. Throws ResourceError.
  UniqueFd duplicate() const { return fd_.duplicate(); }

 private:
  UniqueFd fd_;
  std::string where_;
};

}  // namespace crossdock::transport::net
