#include "wait.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <system_error>
#include <thread>

#include "crossdock/core/error.h"
#include "gil.h"
#include "interrupt.h"
#include "waiter.h"

namespace crossdock::python {
namespace {

using ContextPtr = std::shared_ptr<device::Context>;
using Waiters = std::list<std::shared_ptr<Waiter>>;
using std::chrono::microseconds;

// Work that is as good as done wakes no thread.
constexpr int kQuickLooks = 16;
/// Threads that given-up waits may keep.
constexpr std::size_t kMostWaiters = 8;

/// True if it is over.
bool over_in_a_moment(device::Context& context, const device::Event& event) {
  for (int i = 0; i < kQuickLooks; ++i) {
    if (context.query(event)) return true;
    std::this_thread::yield();
  }
  return false;
}

/// The main thread's, but for those that its calls use just now: one for the next wait, and those whose waits were
/// given up, as a driver can't be told to stop waiting. Who waits for the same again, as loops with timeouts do, waits
/// for that.
Waiters kept;
std::size_t hired_now = 0;  ///< More than one where a signal handler waits in the midst of a wait.

/// A waiter for one wait, or none where there may be no more threads.
class Hired {
 public:
  Hired(const ContextPtr& context, const device::Event& event) {
    kept.remove_if([](const std::shared_ptr<Waiter>& waiter) { return !waiter->here(); });
    const bool waits = take([&](const Waiter& waiter) { return waiter.waits_for(*context, event); });
    if (!waits && !take([](const Waiter& waiter) { return waiter.idle(); })) start();
    if (!waits && !mine_.empty()) mine_.front()->give(context, event);
    ++hired_now;
  }
  ~Hired() {
    --hired_now;
    kept.remove_if([](const std::shared_ptr<Waiter>& waiter) {
      const bool spare = waiter->here() && waiter->idle();
      if (spare) waiter->end();
      return spare;
    });
    kept.splice(kept.end(), mine_);
  }
  Hired(const Hired&) = delete;
  Hired& operator=(const Hired&) = delete;

  explicit operator bool() const noexcept { return !mine_.empty(); }
  Waiter* operator->() const noexcept { return mine_.front().get(); }

 private:
  template <typename Fits>
  bool take(Fits fits) {
    const auto found = std::ranges::find_if(kept, [&](const auto& waiter) { return fits(*waiter); });
    if (found == kept.end()) return false;
    mine_.splice(mine_.end(), kept, found);
    return true;
  }
  void start() {
    if (kept.size() + hired_now >= kMostWaiters) return;
    try {
      mine_.push_back(Waiter::start());
    } catch (const std::system_error&) {
      return;
    }
  }

  Waiters mine_;
};

/// False if a signal handler raised something.
bool wait_by_asking(device::Context& context, const device::Event& event, Interrupt& interrupt) {
  for (microseconds pause{50}; !context.query(event); pause = std::min(2 * pause, microseconds{2'000})) {
    if (interrupt.check()) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

/// False if a signal handler raised something.
bool wait_on_another_thread(const ContextPtr& context, const device::Event& event, Interrupt& interrupt) {
  const Hired hired(context, event);
  if (!hired) return wait_by_asking(*context, event, interrupt);
  while (!hired->wait_a_while()) {
    if (interrupt.check()) return false;
  }
  return true;
}

}  // namespace

void record_without_lock(const device::Event& event) {
  if (!event.awaits()) [[likely]]
    return;
  const GilReleaseIfHeld release;
  event.native();
}

void wait_for_event(const ContextPtr& context, const device::Event& event) {
  Interrupt interrupt;
  {
    const GilReleaseIfHeld release;
    if (!Interrupt::possible_here()) return context->wait(event);
    if (over_in_a_moment(*context, event) || wait_on_another_thread(context, event, interrupt)) return;
  }
  const GilAcquire lock("waiting for a device");
  if (interrupt.raise_here()) throw nanobind::python_error();
  throw InterruptedError("waiting for a device was interrupted");
}

}  // namespace crossdock::python
