#pragma once

#include <chrono>
#include <utility>

namespace crossdock::transport {

/// For a listener that can't accept a client who waits: it stops asking for a while, instead of being woken for that
/// client again and again. One thread.
class Rest {
 public:
  /// True if it wasn't resting already: worth a line in the log.
  bool begin() noexcept {
    until_ = Clock::now() + std::chrono::milliseconds(200);
    return !std::exchange(on_, true);
  }
  /// Something could be accepted, or nobody waits.
  void end() noexcept { on_ = false; }
  bool on() const noexcept { return on_; }
  /// Whether to try.
  bool may_accept() const noexcept { return !on_ || Clock::now() >= until_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point until_{};
  bool on_ = false;
};

}  // namespace crossdock::transport
