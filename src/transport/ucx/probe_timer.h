#pragma once

#include <string>

#include "core/unique_fd.h"

namespace crossdock::transport::ucx {

/// A timer whose descriptor wakes the waiting thread. It goes on by itself: a thread that doesn't wait pays nothing.
/// Use it on one thread at a time.
class ProbeTimer {
 public:
  /// `watched` must stay open as long as this. `where` names the connection in errors. Throws ResourceError,
  /// SystemError.
  ProbeTimer(int watched, int interval_s, std::string where);

  /// Sets the interval, which begins now unless it is the same. Throws SystemError.
  void set(int interval_s);
  /// Readable when `watched` is, or when it is time.
  int descriptor() const noexcept { return poll_.get(); }
  /// Whether an interval has ended since the last call.
  bool due() noexcept;

 private:
  const std::string where_;
  int interval_s_ = 0;
  UniqueFd timer_;
  UniqueFd poll_;  // an epoll instance that contains the two
};

}  // namespace crossdock::transport::ucx
