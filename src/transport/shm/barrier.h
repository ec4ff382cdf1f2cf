#pragma once

#include <atomic>

namespace crossdock::transport::shm {

/// Registers this process for expedited barriers from other processes. False where the kernel can't do it. Idempotent.
bool register_for_barriers() noexcept;

/// The two halves of "I store, then I look; you store, then you look": at least one of the two sees the other's store.
/// It decides whether a sleeper is woken. The side that is about to sleep is in no hurry and calls heavy(); the side
/// that sends messages calls light().
///
/// Expedited (both processes registered): heavy() makes every running thread of both pass a full barrier, so light() is
/// only an order to the compiler. Otherwise both are full fences. Both ends of a connection must use the same kind: the
/// handshake agrees on it.
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
