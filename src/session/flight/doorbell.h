#pragma once

#include <atomic>

#include "core/event_fd.h"

namespace crossdock::session {

/// Wakes the thread that waits for a connection over a call: ring() costs a system call only if that thread sleeps.
/// Thread-safe.
class Doorbell {
 public:
  /// Before the thread looks for the last time whether there is something, and then sleeps.
  void prepare_sleep() noexcept { sleeps_.store(true, std::memory_order_seq_cst); }
  /// After prepare_sleep(), where there is something after all.
  void stay_awake() noexcept { sleeps_.store(false, std::memory_order_relaxed); }
  void woke() noexcept {
    stay_awake();
    event_.clear();
  }
  void ring() noexcept {
    if (sleeps_.exchange(false, std::memory_order_seq_cst)) event_.set();
  }
  int descriptor() const noexcept { return event_.get(); }

 private:
  const EventFd event_{"the descriptor of a Flight call"};
  std::atomic<bool> sleeps_{false};
};

}  // namespace crossdock::session
