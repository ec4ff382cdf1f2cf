#include "wait_thread.h"

#include <cerrno>
#include <ctime>
#include <thread>
#include <utility>

#include "core/blocked_signals.h"

namespace crossdock::python {

namespace {

/// The longest wait before the next check for handlers that came without a signal, because another thread asked for
/// them.
constexpr long kLookNanoseconds = 20'000'000;
constexpr long kSecond = 1'000'000'000;

timespec next_look() noexcept {
  timespec when{};
  ::clock_gettime(CLOCK_MONOTONIC, &when);
  when.tv_nsec += kLookNanoseconds;
  if (when.tv_nsec >= kSecond) {
    when.tv_nsec -= kSecond;
    ++when.tv_sec;
  }
  return when;
}

}  // namespace

// Uses POSIX semaphores: those of the standard library continue to sleep after a signal. Descriptors aren't used,
// because some programs close all open descriptors.
WaitThread::WaitThread() noexcept {
  ::sem_init(&given_, 0, 0);
  ::sem_init(&over_, 0, 0);
}

WaitThread::~WaitThread() {
  ::sem_destroy(&given_);
  ::sem_destroy(&over_);
}

std::shared_ptr<WaitThread> WaitThread::start() {
  std::shared_ptr<WaitThread> thread(new WaitThread);
  const BlockedSignals blocked;  // the new thread inherits the mask: signals are for the user's thread
  std::thread([thread] { thread->run(); }).detach();
  return thread;
}

bool WaitThread::waits_for(const device::Context& context, const device::Event& event) const noexcept {
  // Addresses are sufficient to compare: both objects are held during the wait, so no other object has their address.
  return waited_in_ == &context && waited_for_ == event.native() &&
         state_.load(std::memory_order_acquire) == State::kUnderWay;
}

void WaitThread::give(std::shared_ptr<device::Context> context, device::Event event) {
  event_ = std::move(event);
  begin(std::move(context), event_.native());
}

void WaitThread::give(std::shared_ptr<device::Context> context, device::Queue queue) {
  queue_ = std::move(queue);
  begin(std::move(context), nullptr);
}

void WaitThread::begin(std::shared_ptr<device::Context> context, const void* waited_for) {
  while (::sem_trywait(&over_) == 0) {  // left by an earlier wait whose end was seen without the semaphore
  }
  waited_in_ = context.get();
  waited_for_ = waited_for;
  context_ = std::move(context);
  failure_ = nullptr;
  state_.store(State::kUnderWay, std::memory_order_release);
  ::sem_post(&given_);
}

bool WaitThread::wait_a_while() {
  made_in_.check("the wait for a device");
  if (!idle()) {
    const timespec until = next_look();
    ::sem_clockwait(&over_, CLOCK_MONOTONIC, &until);
  }
  if (!idle()) return false;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  return true;
}

void WaitThread::end() noexcept {
  ended_.store(true, std::memory_order_release);
  ::sem_post(&given_);
}

void WaitThread::run() noexcept {
  do {
    while (::sem_wait(&given_) != 0 && errno == EINTR) {
    }
    if (state_.load(std::memory_order_acquire) == State::kUnderWay) wait_in_driver();
  } while (!ended_.load(std::memory_order_acquire));
}

void WaitThread::wait_in_driver() noexcept {
  try {
    context_->wait(queue_ ? context_->record(*queue_) : event_);
  } catch (...) {
    failure_ = std::current_exception();
  }
  state_.store(State::kReleasing, std::memory_order_release);
  event_ = {};
  queue_.reset();
  context_.reset();
  state_.store(State::kIdle, std::memory_order_release);
  ::sem_post(&over_);
}

}  // namespace crossdock::python
