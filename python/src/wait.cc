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
#include "wait_thread.h"

namespace crossdock::python {
namespace {

using ContextPtr = std::shared_ptr<device::Context>;
using WaitThreads = std::list<std::shared_ptr<WaitThread>>;
using std::chrono::microseconds;

// Number of polls before a wait thread is leased. Short work needs no thread.
constexpr int kQuickLooks = 16;
/// The largest number of threads, counting those of abandoned waits.
constexpr std::size_t kMaxWaitThreads = 8;

/// Polls a few times. Returns true if the event is over.
bool over_in_a_moment(device::Context& context, const device::Event& event) {
  for (int i = 0; i < kQuickLooks; ++i) {
    if (context.query(event)) return true;
    std::this_thread::yield();
  }
  return false;
}

/// The wait threads that aren't leased: an idle one for the next wait, and those of abandoned waits, which a driver
/// can't end. A later wait for the same event, as in loops with timeouts, leases such a thread again. Only used by the
/// main thread.
WaitThreads kept_threads;
std::size_t n_leased = 0;  ///< More than one if a signal handler waits during a wait.

/// Leases a wait thread for the duration of one wait. Empty if there is no thread and none can be started.
class WaitThreadLease {
 public:
  /// `work`: an event, or a queue whose record() waits.
  template <typename Work>
  WaitThreadLease(const ContextPtr& context, const Work& work) {
    kept_threads.remove_if([](const std::shared_ptr<WaitThread>& thread) { return !thread->here(); });
    const bool waits = take([&](const WaitThread& thread) { return thread.waits_for(*context, work); });
    if (!waits && !take([](const WaitThread& thread) { return thread.idle(); })) start();
    if (!waits && !mine_.empty()) mine_.front()->give(context, work);
    ++n_leased;
  }
  ~WaitThreadLease() {
    --n_leased;
    kept_threads.remove_if([](const std::shared_ptr<WaitThread>& thread) {
      const bool spare = thread->here() && thread->idle();
      if (spare) thread->end();
      return spare;
    });
    kept_threads.splice(kept_threads.end(), mine_);
  }
  WaitThreadLease(const WaitThreadLease&) = delete;
  WaitThreadLease& operator=(const WaitThreadLease&) = delete;

  explicit operator bool() const noexcept { return !mine_.empty(); }
  WaitThread* operator->() const noexcept { return mine_.front().get(); }

 private:
  template <typename Fits>
  bool take(Fits fits) {
    const auto found = std::ranges::find_if(kept_threads, [&](const auto& thread) { return fits(*thread); });
    if (found == kept_threads.end()) return false;
    mine_.splice(mine_.end(), kept_threads, found);
    return true;
  }
  void start() {
    if (kept_threads.size() + n_leased >= kMaxWaitThreads) return;
    try {
      mine_.push_back(WaitThread::start());
    } catch (const std::system_error&) {
      return;
    }
  }

  WaitThreads mine_;
};

/// Waits by polling. Returns false if a signal handler raised an exception.
bool wait_by_asking(device::Context& context, const device::Event& event, Interrupt& interrupt) {
  for (microseconds pause{50}; !context.query(event); pause = std::min(2 * pause, microseconds{2'000})) {
    if (interrupt.check()) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

/// Waits for the thread's wait. Returns false if a signal handler raised an exception.
bool wait_for_thread(const WaitThreadLease& lease, Interrupt& interrupt) {
  while (!lease->wait_a_while()) {
    if (interrupt.check()) return false;
  }
  return true;
}

/// Waits with a wait thread, or by polling if there is none. Returns false if a signal handler raised an exception.
bool wait_on_another_thread(const ContextPtr& context, const device::Event& event, Interrupt& interrupt) {
  const WaitThreadLease lease(context, event);
  return lease ? wait_for_thread(lease, interrupt) : wait_by_asking(*context, event, interrupt);
}

/// Waits for all work that is on an out-of-order queue: with a wait thread, or without interrupts if there is none.
/// Returns false if a signal handler raised an exception.
bool wait_on_another_thread(const ContextPtr& context, const device::Queue& queue, Interrupt& interrupt) {
  const WaitThreadLease lease(context, queue);
  if (lease) return wait_for_thread(lease, interrupt);
  context->wait(context->record(queue));
  return true;
}

[[noreturn]] void throw_interrupted(Interrupt& interrupt) {
  const GilAcquire lock("waiting for a device");
  if (interrupt.raise_here()) throw nanobind::python_error();
  throw InterruptedError("waiting for a device was interrupted");
}

}  // namespace

device::Event pending_without_lock(const device::Memory& memory) {
  if (!memory.queue) [[likely]]
    return memory.pending();
  const GilReleaseIfHeld release;
  return memory.pending();
}

void wait_for_event(const ContextPtr& context, const device::Event& event) {
  Interrupt interrupt;
  {
    const GilReleaseIfHeld release;
    if (!Interrupt::possible_here()) return context->wait(event);
    if (over_in_a_moment(*context, event) || wait_on_another_thread(context, event, interrupt)) return;
  }
  throw_interrupted(interrupt);
}

void wait_for_queue(const ContextPtr& context, const device::Queue& queue) {
  if (context->in_order(queue)) {
    const auto record = [&] {
      const GilReleaseIfHeld release;  // see pending_without_lock()
      return context->record(queue);
    };
    return wait_for_event(context, record());
  }
  Interrupt interrupt;
  {
    const GilReleaseIfHeld release;
    if (!Interrupt::possible_here()) return context->wait(context->record(queue));
    if (wait_on_another_thread(context, queue, interrupt)) return;
  }
  throw_interrupted(interrupt);
}

}  // namespace crossdock::python
