#include "waiter.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "crossdock/core/blocked_signals.h"

namespace crossdock::python {

namespace {

/// Until the next look for what no signal tells: a handler that another thread asked for.
constexpr int kLookMilliseconds = 20;

UniqueFd make_eventfd(int flags) {
  UniqueFd made(::eventfd(0, EFD_CLOEXEC | flags));
  if (!made) throw std::system_error(errno, std::generic_category());
  return made;
}

/// Until somebody wakes this thread.
void sleep_on(const UniqueFd& wakes) noexcept {
  eventfd_t times = 0;
  while (::eventfd_read(wakes.get(), &times) != 0 && errno == EINTR) {
  }
}

}  // namespace

Waiter::Waiter() : given_(make_eventfd(0)), over_(make_eventfd(EFD_NONBLOCK)) {}

std::shared_ptr<Waiter> Waiter::start() {
  std::shared_ptr<Waiter> waiter(new Waiter);
  const BlockedSignals blocked;  // they are the user's
  std::thread([waiter] { waiter->run(); }).detach();
  return waiter;
}

bool Waiter::waits_for(const device::Context& context, const device::Event& event) const noexcept {
  // As long as it is under way both are held, so that nothing else has their addresses.
  return waited_in_ == &context && waited_for_ == event.native() &&
         state_.load(std::memory_order_acquire) == State::kUnderWay;
}

void Waiter::give(std::shared_ptr<device::Context> context, device::Event event) {
  waited_in_ = context.get();
  waited_for_ = event.native();
  context_ = std::move(context);
  event_ = std::move(event);
  failure_ = nullptr;
  state_.store(State::kUnderWay, std::memory_order_release);
  ::eventfd_write(given_.get(), 1);
}

bool Waiter::wait_a_while() {
  made_in_.check("the wait for a device");
  pollfd over{.fd = over_.get(), .events = POLLIN, .revents = 0};
  eventfd_t times = 0;
  if (::poll(&over, 1, kLookMilliseconds) > 0) ::eventfd_read(over_.get(), &times);
  if (!idle()) return false;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  return true;
}

void Waiter::end() noexcept {
  ended_.store(true, std::memory_order_release);
  ::eventfd_write(given_.get(), 1);
}

void Waiter::run() noexcept {
  while (!ended_.load(std::memory_order_acquire)) {
    sleep_on(given_);
    if (state_.load(std::memory_order_acquire) == State::kUnderWay) wait_in_driver();
  }
}

void Waiter::wait_in_driver() noexcept {
  try {
    context_->wait(event_);
  } catch (...) {
    failure_ = std::current_exception();
  }
  state_.store(State::kLettingGo, std::memory_order_release);
  event_ = {};
  context_.reset();
  state_.store(State::kIdle, std::memory_order_release);
  ::eventfd_write(over_.get(), 1);
}

}  // namespace crossdock::python
