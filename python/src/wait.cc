#include "wait.h"

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "crossdock/core/error.h"
#include "gil.h"
#include "interrupt.h"
#include "waiter.h"

namespace crossdock::python {
namespace {

using ContextPtr = std::shared_ptr<device::Context>;

// Work that is as good as done wakes no thread.
constexpr int kQuickLooks = 16;

/// True if it is over.
bool over_in_a_moment(device::Context& context, const device::Event& event) {
  for (int i = 0; i < kQuickLooks; ++i) {
    if (context.query(event)) return true;
    std::this_thread::yield();
  }
  return false;
}

/// The thread that waited last, for the next wait. It may be at it still: a driver can't be told to stop waiting, and
/// who waits for the same again, as loops with timeouts do, waits for that. The main thread's.
std::shared_ptr<Waiter> kept;

/// A waiter for one wait. Kept at its end, in the place of one that a signal handler's own wait left meanwhile.
class Hired {
 public:
  /// Throws std::system_error where there may be no more threads or descriptors.
  Hired(const ContextPtr& context, const device::Event& event) : waiter_(std::exchange(kept, nullptr)) {
    if (waiter_ != nullptr && !waiter_->here()) waiter_ = nullptr;
    if (waiter_ != nullptr && waiter_->waits_for(*context, event)) return;
    if (waiter_ != nullptr && !waiter_->idle()) std::exchange(waiter_, nullptr)->end();
    if (waiter_ == nullptr) waiter_ = Waiter::start();
    waiter_->give(context, event);
  }
  ~Hired() {
    if (!waiter_->here()) return;
    if (kept != nullptr) kept->end();
    kept = std::move(waiter_);
  }
  Hired(const Hired&) = delete;
  Hired& operator=(const Hired&) = delete;

  Waiter& operator*() const noexcept { return *waiter_; }

 private:
  std::shared_ptr<Waiter> waiter_;
};

/// False if a signal handler raised something.
bool wait_on_another_thread(const ContextPtr& context, const device::Event& event, Interrupt& interrupt) {
  std::optional<Hired> hired;
  try {
    hired.emplace(context, event);
  } catch (const std::system_error&) {
    context->wait(event);  // without an answer to Ctrl-C
    return true;
  }
  while (!(**hired).wait_a_while()) {
    if (interrupt.check()) return false;
  }
  return true;
}

}  // namespace

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
