#pragma once

#include <utility>

namespace crossdock {

/// Owns a file descriptor and closes it. Move-only. Use it on one thread at a time.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;
  /// Returns a second descriptor of the same open file, close-on-exec. Throws ResourceError.
  UniqueFd duplicate() const;

 private:
  int fd_ = -1;
};

}  // namespace crossdock
