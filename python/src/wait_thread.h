#pragma once

#include <semaphore.h>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include "core/fork.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// A thread that blocks in drivers on behalf of one other thread, its user, which can then handle signals. It is reused
/// for several events, one after the other, because a runtime is faster on a thread that it has seen before. Not
/// thread-safe: only its user may call it. Unusable in a forked child.
class WaitThread {
 public:
  /// Throws std::system_error if no thread can be started.
  static std::shared_ptr<WaitThread> start();
  WaitThread(const WaitThread&) = delete;
  WaitThread& operator=(const WaitThread&) = delete;
  ~WaitThread();

  /// Returns false in a forked child.
  bool here() const noexcept { return !made_in_.in_child(); }
  /// Returns true if no wait is under way: give() may be called.
  bool idle() const noexcept { return state_.load(std::memory_order_acquire) == State::kIdle; }
  /// Returns true if the wait under way is for this event.
  bool waits_for(const device::Context& context, const device::Event& event) const noexcept;
  /// Returns false: a wait for a queue that is under way began earlier, and doesn't cover work that was submitted
  /// since.
  static bool waits_for(const device::Context&, const device::Queue&) noexcept { return false; }

  /// Starts a wait for an event that has a native handle. The thread holds both arguments until the wait is over.
  void give(std::shared_ptr<device::Context> context, device::Event event);
  /// Starts a wait for all work that is on a queue whose record() waits. The thread holds both until the wait is over.
  void give(std::shared_ptr<device::Context> context, device::Queue queue);
  /// Blocks until the wait is over or a short time has passed. Returns false after a signal or the timeout. When it
  /// returns true, the thread has released context and event. Throws the error of the work, and ForkError in a child.
  bool wait_a_while();
  /// Ends the thread after its wait. No other function may be called afterwards.
  void end() noexcept;

 private:
  enum class State { kIdle, kUnderWay, kReleasing };

  WaitThread() noexcept;
  void begin(std::shared_ptr<device::Context> context, const void* waited_for);
  void run() noexcept;
  void wait_in_driver() noexcept;

  ForkGuard made_in_;
  sem_t given_{};  ///< Wakes the thread.
  sem_t over_{};   ///< Wakes the user; signals interrupt that wait.
  std::atomic<bool> ended_{false};
  std::atomic<State> state_{State::kIdle};
  // Owned by the user while idle, else by the thread.
  std::shared_ptr<device::Context> context_;
  device::Event event_;
  std::optional<device::Queue> queue_;  // instead of an event
  std::exception_ptr failure_;
  // Owned by the user: the arguments of the last give().
  const device::Context* waited_in_ = nullptr;
  const void* waited_for_ = nullptr;  // null for a queue
};

}  // namespace crossdock::python
