#pragma once

#include <atomic>
#include <cstdint>

namespace crossdock::transport {

/// Sends that found no room. The receiving half tells the connection's owner once there is room again, and forgets
/// what it has told. The owner may have been refused once more in between: that isn't forgotten.
class Refusals {
 public:
  /// Of the sending half.
  void add() noexcept { count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // Of the receiving half:
  /// Whether there is something to tell once there is room.
  bool pending() const noexcept { return count_.load(std::memory_order_acquire) != forgotten_; }
  /// The owner is told, as often as it asks, until forget().
  void tell() const noexcept { told_ = count_.load(std::memory_order_relaxed); }
  void forget() noexcept { forgotten_ = told_; }

 private:
  std::atomic<std::uint64_t> count_{0};
  mutable std::uint64_t told_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace crossdock::transport
