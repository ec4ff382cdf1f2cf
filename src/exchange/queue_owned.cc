#include "queue_owned.h"

#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <utility>

namespace crossdock::exchange {
namespace {

/// Memory that can't be given back any more. It stays in a list, so that a look for leaks finds it where it was left.
struct KeptForGood {
  device::Buffer buffer;
  KeptForGood* next;
};
std::atomic<KeptForGood*> kept_for_good{nullptr};

void keep_for_good(device::Buffer buffer) noexcept {
  auto* const kept = new (std::nothrow) KeptForGood{.buffer = std::move(buffer), .next = kept_for_good.load()};
  while (kept != nullptr && !kept_for_good.compare_exchange_weak(kept->next, kept)) {
  }
}

struct QueueOwned {
  device::Buffer buffer;
  std::shared_ptr<device::Context> context;
  LastingQueue queue;

  QueueOwned(device::Buffer memory, std::shared_ptr<device::Context> of, LastingQueue on) noexcept
      : buffer(std::move(memory)), context(std::move(of)), queue(std::move(on)) {}
  QueueOwned(const QueueOwned&) = delete;
  QueueOwned& operator=(const QueueOwned&) = delete;
  ~QueueOwned() {
    if (buffer.data() == nullptr) return;
    try {
      queue.catch_up();
      context->free(std::move(buffer), queue.queue());
      return;
    } catch (const std::exception&) {
      // The memory is still ours, and the queue may be working on it.
    }
    if (wait_for_all(*context, queue.queue())) return;
    // A queue that takes nothing and can't be waited for: who knows what it still does. No memory is better lost than
    // given to somebody else under its work.
    keep_for_good(std::move(buffer));
  }
};

}  // namespace

LastingQueue::LastingQueue(const std::shared_ptr<device::Context>& context, const device::Queue& asked)
    : context_(context), asked_(asked), queue_(asked.thread_bound() ? context->make_queue() : asked) {
  catch_up();
}

void LastingQueue::go_on_after(const device::Event& event) const {
  if (asked_.thread_bound()) context_->order_after(asked_, event);
}

void LastingQueue::catch_up() const {
  if (asked_.thread_bound() && asked_.usable_here()) context_->order_after(queue_, context_->record(asked_));
}

std::shared_ptr<const void> owned_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context,
                                           const LastingQueue& queue) {
  return std::make_shared<const QueueOwned>(std::move(buffer), std::move(context), queue);
}

bool wait_for_all(device::Context& context, const device::Queue& queue) noexcept {
  std::optional<device::Event> done;
  try {
    done = context.record(queue);
  } catch (const std::exception&) {
    return false;
  }
  try {
    context.wait(*done);
  } catch (const std::exception&) {
    // What failed is done.
  }
  return true;
}

}  // namespace crossdock::exchange
