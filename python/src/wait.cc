#include "wait.h"

#include <nanobind/nanobind.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "crossdock/core/blocked_signals.h"
#include "crossdock/core/error.h"
#include "crossdock/core/fork.h"
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
  /// Throws std::system_error where no descriptor is left.
  Waiting(std::shared_ptr<device::Context> context, device::Event event)
      : context_(std::move(context)), event_(std::move(event)), over_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!over_fd_) throw std::system_error(errno, std::generic_category());
  }

  ~Waiting() {
    // In a child that a signal handler forked the thread isn't: there is nothing to join or to detach, only a handle
    // that mustn't be destroyed.
    if (made_in_.in_child()) {
      static_cast<void>(thread_.release());
    } else {
      give_up();
    }
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  void run() noexcept {
    try {
      context_->wait(event_);
    } catch (...) {
      failure_ = std::current_exception();
    }
    over_.store(true, std::memory_order_release);
    ::eventfd_write(over_fd_.get(), 1);
  }

  bool is_for(const device::Context& context, const device::Event& event) const noexcept {
    return context_.get() == &context && event_.native() == event.native() && !made_in_.in_child();
  }
  /// False if a signal came, or it was time to look for one. Throws ForkError in a child that a handler forked: there
  /// the thread isn't.
  bool wait_a_while() {
    made_in_.check("the wait for a device");
    pollfd over{.fd = over_fd_.get(), .events = POLLIN, .revents = 0};
    ::poll(&over, 1, kLookMilliseconds);
    return over_.load(std::memory_order_acquire);
  }
  /// Once it is over: the thread has let go of context and event when this returns, so that they go where they are
  /// expected to. Throws the failure of the work.
  void finish() {
    if (thread_ && thread_->joinable()) thread_->join();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }
  /// Leaves the thread to its wait.
  void give_up() {
    if (thread_ && thread_->joinable()) thread_->detach();
  }
  static void start(const std::shared_ptr<Waiting>& waiting) {
    const BlockedSignals blocked;  // they are the main thread's
    waiting->thread_ = std::make_unique<std::thread>([waiting] { waiting->run(); });
  }

 private:
  ForkGuard made_in_;
  std::shared_ptr<device::Context> context_;
  device::Event event_;
  UniqueFd over_fd_;
  std::atomic<bool> over_{false};
  std::exception_ptr failure_;           ///< Once it is over.
  std::unique_ptr<std::thread> thread_;  ///< Of no use to it itself: the main thread's.
};

/// What an interrupted wait left to its thread: who waits for the same again, as loops with timeouts do, waits for
/// that. The main thread's.
std::weak_ptr<Waiting> interrupted;

/// Null where there may be no more threads or descriptors.
std::shared_ptr<Waiting> waiting_for(const std::shared_ptr<device::Context>& context, const device::Event& event) {
  if (auto left = interrupted.lock(); left != nullptr && left->is_for(*context, event)) return left;
  try {
    auto waiting = std::make_shared<Waiting>(context, event);
    Waiting::start(waiting);
    return waiting;
  } catch (const std::system_error&) {
    return nullptr;
  }
}

/// False if a signal handler raised something.
bool wait_on_another_thread(const std::shared_ptr<device::Context>& context, const device::Event& event,
                            Interrupt& interrupt) {
  const std::shared_ptr<Waiting> waiting = waiting_for(context, event);
  if (waiting == nullptr) {
    context->wait(event);  // without an answer to Ctrl-C
    return true;
  }
  while (!waiting->wait_a_while()) {
    if (!interrupt.check()) continue;
    waiting->give_up();
    interrupted = waiting;  // the driver can't be told to stop waiting
    return false;
  }
  waiting->finish();
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
