#include <mutex>
#include <utility>

#include "crossdock/device/queue.h"

namespace crossdock::device {

struct Event::State {
  void* native = nullptr;
  std::shared_ptr<void> owner;
  std::mutex mutex;
  std::shared_ptr<const Error> failure;  ///< Guarded by `mutex`.
};

Event::Event(NativeEvent native, std::shared_ptr<void> owner) : state_(std::make_shared<State>()) {
  state_->native = native.get();
  state_->owner = std::move(owner);
}

Event Event::failed(std::shared_ptr<const Error> failure) {
  Event event(NativeEvent(), nullptr);
  event.fail(std::move(failure));
  return event;
}

void* Event::native() const noexcept { return state_ ? state_->native : nullptr; }

void* Event::need() const {
  check();
  return native();
}

std::shared_ptr<const Error> Event::failure() const {
  if (!state_) return nullptr;
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

void Event::fail(std::shared_ptr<const Error> failure) {
  // An event without a state has no copies that could carry the failure, and says that its work is done.
  if (!state_) throw InvalidArgumentError("a complete event can't fail");
  const std::lock_guard lock(state_->mutex);
  if (!state_->failure) state_->failure = std::move(failure);
}

void Event::check() const {
  if (const std::shared_ptr<const Error> error = failure()) throw_error(error->code(), error->what());
}

}  // namespace crossdock::device
