#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "crossdock/core/unique_fd.h"

namespace crossdock::transport::tcp {

/// What a read or a write came to.
struct Moved {
  enum class State : std::uint8_t {
    kSome,     ///< `bytes` were moved, at least one.
    kNothing,  ///< Not now: nothing is there, or no room.
    kEnd,      ///< Nor ever again.
  };
  State state = State::kNothing;
  std::size_t bytes = 0;
  int error = 0;  ///< With kEnd: the system's error; 0: an orderly end; EFAULT: what is written can't be read any more.
};

/// Bytes in order, both ways: a socket, or in tests whatever a test makes of it. Nothing blocks. Reading and writing
/// may happen on two threads at once.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual Moved read(std::span<const iovec> parts) = 0;
  virtual Moved write(std::span<const iovec> parts) = 0;
};

/// A connected TCP socket, which it owns. Throws SystemError, starting with `where`, for what is no end of the
/// connection.
class Socket final : public ByteStream {
 public:
  Socket(UniqueFd fd, std::string where) : fd_(std::move(fd)), where_(std::move(where)) {}
  Moved read(std::span<const iovec> parts) override;
  Moved write(std::span<const iovec> parts) override;
  int get() const noexcept { return fd_.get(); }
  /// A second descriptor of it: the socket lives until both are closed. Throws ResourceError.
  UniqueFd duplicate() const { return fd_.duplicate(); }

 private:
  const UniqueFd fd_;
  const std::string where_;
};

}  // namespace crossdock::transport::tcp
