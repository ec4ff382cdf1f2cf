#pragma once

#include <semaphore.h>

#include <atomic>
#include <exception>
#include <memory>

#include "crossdock/core/fork.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/event.h"

namespace crossdock::python {

/// A thread that waits in drivers for another one, its user, which meanwhile sees signals. It takes one event after the
/// other: a thread that a run time knows already waits sooner, and helps the sooner where who waits helps. Used by one
/// thread; in a forked child there is nothing to use.
class Waiter {
 public:
  /// Throws std::system_error where there may be no more threads.
  static std::shared_ptr<Waiter> start();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  /// False in a forked child.
  bool here() const noexcept { return !made_in_.in_child(); }
  /// Nothing is waited for: give() may come.
  bool idle() const noexcept { return state_.load(std::memory_order_acquire) == State::kIdle; }
  /// It waits for this very event now.
  bool waits_for(const device::Context& context, const device::Event& event) const noexcept;

  /// Has the thread wait for an event, whose native handle is there already, and hold both until that is over.
  void give(std::shared_ptr<device::Context> context, device::Event event);
  /// Waits for what was given: false if a signal came, or it was time to look for one. Once true, the thread has let go
  /// of context and event. Throws the failure of the work, and ForkError in a child.
  bool wait_a_while();
  /// The thread ends, after what it waits for. The last call.
  void end() noexcept;

 private:
  enum class State { kIdle, kUnderWay, kLettingGo };

  Waiter() noexcept;
  void run() noexcept;
  void wait_in_driver() noexcept;

  ForkGuard made_in_;
  sem_t given_{};  ///< What wakes the thread.
  sem_t over_{};   ///< What wakes its user, as signals do.
  std::atomic<bool> ended_{false};
  std::atomic<State> state_{State::kIdle};
  // The user's while idle, then the thread's.
  std::shared_ptr<device::Context> context_;
  device::Event event_;
  std::exception_ptr failure_;
  // The user's: what `context_` and `event_` were.
  const device::Context* waited_in_ = nullptr;
  const void* waited_for_ = nullptr;
};

}  // namespace crossdock::python
