#pragma once

#include <atomic>

namespace crossdock::transport::shm {

/// Registers this process for expedited barriers from other processes. Returns false if the kernel doesn't support
/// them. Idempotent.
bool register_for_barriers() noexcept;

/// The two halves of a store-then-load handshake: each side first stores, then loads the other side's variable, and at
/// least one of the two sees the other's store. It decides whether a sleeping end is woken. The end that is about to
/// sleep calls heavy(), because it isn't in a hurry; the end that sends messages calls light().
///
/// Expedited (both processes registered): heavy() makes every running thread of both processes execute a full barrier,
/// so light() is only a compiler barrier. Otherwise both functions are full fences. Both ends of a connection must use
/// the same kind: the handshake agrees on it.
class Barrier {
 public:
  explicit Barrier(bool expedited) noexcept : expedited_(expedited) {}
  void light() const noexcept {
    if (expedited_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      fence();
    }
  }
  void heavy() const noexcept;

 private:
  static void fence() noexcept;
  bool expedited_;
};

}  // namespace crossdock::transport::shm
