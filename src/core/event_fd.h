#pragma once

#include "core/unique_fd.h"

namespace crossdock {

/// A descriptor that is readable from set() until clear(). Thread-safe.
class EventFd {
 public:
  /// `what` completes the text of an error: "making <what>". Throws ResourceError.
  explicit EventFd(const char* what);
  void set() const noexcept;
  void clear() const noexcept;
  int get() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace crossdock
