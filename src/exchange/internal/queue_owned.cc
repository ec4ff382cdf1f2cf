#include "exchange/internal/queue_owned.h"

#include <exception>
#include <optional>
#include <utility>

#include "device/leak.h"

namespace crossdock::exchange {
namespace {

struct QueueOwned {
  device::Buffer buffer;
  std::shared_ptr<device::Context> context;
  OwningQueue queue;

  QueueOwned(device::Buffer memory, std::shared_ptr<device::Context> of, OwningQueue on) noexcept
      : buffer(std::move(memory)), context(std::move(of)), queue(std::move(on)) {}
  QueueOwned(const QueueOwned&) = delete;
  QueueOwned& operator=(const QueueOwned&) = delete;
  ~QueueOwned() {
    if (buffer.data() == nullptr) return;
    try {
      queue.order_after_caller();
      context->free(std::move(buffer), queue.queue());
      return;
    } catch (const std::exception&) {
      // The memory is still owned here, and the queue may be working on it.
    }
    if (wait_for_all(*context, queue.queue())) return;
    device::leak(buffer.release());  // the queue takes no work and can't be waited for, so it may still use the memory
  }
};

}  // namespace

OwningQueue::OwningQueue(const std::shared_ptr<device::Context>& context, const device::Queue& asked)
    : context_(context), asked_(asked), queue_(asked.thread_bound() ? context->make_queue() : asked) {
  order_after_caller();
}

void OwningQueue::order_caller_after(const device::Event& event) const {
  if (asked_.thread_bound()) context_->order_after(asked_, event);
}

void OwningQueue::order_after_caller() const {
  if (asked_.thread_bound() && asked_.usable_here()) context_->order_after(queue_, context_->record(asked_));
}

std::shared_ptr<const void> owned_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context,
                                           const OwningQueue& queue) {
  return std::make_shared<const QueueOwned>(std::move(buffer), std::move(context), queue);
}

void free_on_queue(device::Buffer buffer, std::shared_ptr<device::Context> context, const OwningQueue& queue) noexcept {
  const QueueOwned now(std::move(buffer), std::move(context), queue);
}

void order_producer_after(const device::Memory& from, const device::Event& copied, device::Context& executor,
                          const device::Queue& queue) {
  if (!from.queue || *from.queue == queue) return;
  // A queue of another thread can't be ordered from here, and one of another driver not after this event.
  if (!from.queue->usable_here() || from.context->driver_name() != executor.driver_name()) {
    executor.wait(copied);
  } else {
    from.context->order_after(*from.queue, copied);
  }
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
    // Failed work is over too.
  }
  return true;
}

void wait_for_started(device::Context& context, const device::Queue& queue, const device::Event& copied) noexcept {
  if (wait_for_all(context, queue)) return;
  try {
    context.wait(copied);
  } catch (const std::exception&) {
    // Failed work is over too.
  }
}

}  // namespace crossdock::exchange
