#include "crossdock/device/queue.h"

#include <atomic>
#include <exception>
#include <mutex>

#include "crossdock/device/driver.h"

namespace crossdock::device {

/// The arguments of end_of().
struct Awaited {
  std::shared_ptr<Context> context;
  Queue queue;
  Event recorded{};
};

struct Event::State {
  std::atomic<void*> native{nullptr};
  std::shared_ptr<void> owner;
  std::mutex mutex;
  std::shared_ptr<const Error> failure;
  std::mutex recording;              ///< Guards the next members; locked before `mutex`.
  std::unique_ptr<Awaited> awaited;  ///< Until it is recorded; then it owns the event.
  std::atomic<bool> later{false};    ///< Not recorded yet.

  void record() noexcept {
    const std::lock_guard lock(recording);
    if (!later.load(std::memory_order_relaxed)) return;
    try {
      awaited->recorded = awaited->context->record(awaited->queue);
      native.store(awaited->recorded.native(), std::memory_order_relaxed);
      note(awaited->recorded.failure());
    } catch (const Error& error) {
      note(std::make_shared<const Error>(error));
    } catch (const std::exception& error) {
      note(std::make_shared<const ResourceError>(error.what()));
    }
    later.store(false, std::memory_order_release);
  }
  void note(std::shared_ptr<const Error> error) {
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::move(error);
  }
};

Event::Event(void* native, std::shared_ptr<void> owner) : state_(std::make_shared<State>()) {
  state_->native.store(native, std::memory_order_relaxed);
  state_->owner = std::move(owner);
}

Event Event::failed(std::shared_ptr<const Error> failure) {
  Event event(nullptr, nullptr);
  event.fail(std::move(failure));
  return event;
}

Event Event::end_of(std::shared_ptr<Context> context, Queue queue) {
  Event event(nullptr, nullptr);
  event.state_->awaited = std::make_unique<Awaited>(Awaited{std::move(context), std::move(queue)});
  event.state_->later.store(true, std::memory_order_release);
  return event;
}

void* Event::native() const noexcept {
  if (!state_) return nullptr;
  if (state_->later.load(std::memory_order_acquire)) state_->record();
  return state_->native.load(std::memory_order_relaxed);
}

void* Event::need() const {
  void* const handle = native();  // before check(), since recording may fail
  check();
  return handle;
}

bool Event::empty() const noexcept {
  return !state_ ||
         (!state_->later.load(std::memory_order_acquire) && state_->native.load(std::memory_order_relaxed) == nullptr);
}

std::optional<Queue> Event::awaits() const noexcept {
  // `awaited` is kept after the recording, and with it the queue.
  if (!state_ || !state_->later.load(std::memory_order_acquire)) return std::nullopt;
  return state_->awaited->queue;
}

std::shared_ptr<const Error> Event::failure() const {
  if (!state_) return nullptr;
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

void Event::fail(std::shared_ptr<const Error> failure) {
  // An event without a state has no copies that could carry the failure, and says that its work is done.
  if (!state_) throw InvalidArgumentError("a complete event can't fail");
  state_->note(std::move(failure));
}

void Event::check() const {
  if (const std::shared_ptr<const Error> error = failure()) throw_error(error->code(), error->what());
}

}  // namespace crossdock::device
