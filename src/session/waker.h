#pragma once

#include <atomic>
#include <cstdint>

#include "crossdock/core/unique_fd.h"

namespace crossdock::session {

/// Wakes the I/O thread from others. notify() is a store and a load unless the thread sleeps. Thread-safe.
class Waker {
 public:
  Waker();
  void notify() noexcept;

  // For the I/O thread:
  std::uint64_t seen() const noexcept { return events_.load(std::memory_order_seq_cst); }
  /// False: something was notified since `seen`; don't sleep.
  bool prepare_sleep(std::uint64_t seen) noexcept;
  void woke() noexcept;
  int descriptor() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::atomic<std::uint64_t> events_{0};
  std::atomic<bool> sleeping_{false};
};

}  // namespace crossdock::session
