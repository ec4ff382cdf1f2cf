#include "wait.h"

#include <nanobind/nanobind.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "crossdock/core/blocked_signals.h"
#include "crossdock/core/error.h"
#include "crossdock/core/unique_fd.h"
#include "gil.h"
#include "interrupt.h"

namespace crossdock::python {
namespace {

using std::chrono::microseconds;

// Work that is as good as done costs no thread.
constexpr int kQuickLooks = 16;
constexpr microseconds kFirstPause{8};
constexpr microseconds kLastPause{16};
/// Until the next look for what no signal tells: a handler that another thread asked for.
constexpr int kLookMilliseconds = 20;

/// True if it is over.
bool over_in_a_moment(device::Context& context, const device::Event& event) {
  for (int i = 0; i < kQuickLooks; ++i) {
    if (context.query(event)) return true;
    std::this_thread::yield();
  }
  for (microseconds pause = kFirstPause; pause <= kLastPause; pause *= 2) {
    std::this_thread::sleep_for(pause);
    if (context.query(event)) return true;
  }
  return false;
}

/// What the thread that waits in the driver shares with the one that waits for it. It lives as long as either.
class Waiting {
 public:
  Waiting(std::shared_ptr<device::Context> context, device::Event event)
      : context_(std::move(context)), event_(std::move(event)), over_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!over_fd_) throw ResourceError("no descriptor is left to wait for a device with");
  }

  void run() noexcept {
    try {
      context_->wait(event_);
    } catch (...) {
      failure_ = std::current_exception();
    }
    over_.store(true, std::memory_order_release);
    ::eventfd_write(over_fd_.get(), 1);
  }

  /// False if a signal came, or it was time to look for one.
  bool wait_a_while() noexcept {
    pollfd over{.fd = over_fd_.get(), .events = POLLIN, .revents = 0};
    ::poll(&over, 1, kLookMilliseconds);
    return over_.load(std::memory_order_acquire);
  }
  void throw_failure() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  std::shared_ptr<device::Context> context_;
  device::Event event_;
  UniqueFd over_fd_;
  std::atomic<bool> over_{false};
  std::exception_ptr failure_;  ///< Once it is over.
};

std::thread started(const std::shared_ptr<Waiting>& waiting) {
  const BlockedSignals blocked;  // they are the main thread's
  return std::thread([waiting] { waiting->run(); });
}

/// False if a signal handler raised something.
bool wait_on_another_thread(const std::shared_ptr<device::Context>& context, const device::Event& event,
                            Interrupt& interrupt) {
  const auto waiting = std::make_shared<Waiting>(context, event);
  std::thread thread;
  try {
    thread = started(waiting);
  } catch (const std::system_error&) {  // as many threads as there may be: then without an answer to Ctrl-C
    context->wait(event);
    return true;
  }
  while (!waiting->wait_a_while()) {
    if (!interrupt.check()) continue;
    thread.detach();  // the driver can't be told to stop waiting
    return false;
  }
  thread.join();
  waiting->throw_failure();
  return true;
}

}  // namespace

void wait_for_event(const std::shared_ptr<device::Context>& context, const device::Event& event) {
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
