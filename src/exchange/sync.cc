#include "crossdock/exchange/sync.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "exchange/internal/queue_owned.h"

namespace crossdock::exchange {

namespace {

/// A queue whose work may use the memory.
struct QueueUsed {
  std::shared_ptr<device::Context> context;
  OwningQueue queue;
};

/// The owner that keep_queue() and free_after_queue() make.
struct QueuesKept {
  std::shared_ptr<const void> owner;
  std::vector<device::Queue> queues;
  std::vector<QueueUsed> used;
};

/// Deleter of QueuesKept. Its type tells which owners are such a list: an owner is otherwise only a pointer.
struct DropQueuesKept {
  void operator()(const QueuesKept* kept) const noexcept {
    // Each queue gets the owner, which is dropped after the last of them. The address is for the drivers' checks only.
    static std::byte anywhere;
    const device::BufferRef memory{
        .data = &anywhere, .size = 1, .device = {}, .kind = device::MemoryKind::kHost, .read_only = true};
    for (const QueueUsed& used : kept->used) {
      free_on_queue(device::Buffer(memory, std::const_pointer_cast<void>(kept->owner)), used.context, used.queue);
    }
    delete kept;
  }
};

/// Returns a list with the memory's owner and all that its list has, which isn't the memory's owner yet.
std::unique_ptr<QueuesKept> extended(const device::Memory& memory, const QueuesKept* before) {
  auto kept = std::make_unique<QueuesKept>();
  if (before != nullptr) {
    *kept = *before;
  } else {
    kept->owner = memory.owner;
  }
  return kept;
}

void set_owner(device::Memory* memory, std::unique_ptr<QueuesKept> kept) {
  memory->owner = std::shared_ptr<const QueuesKept>(kept.release(), DropQueuesKept{});
}

const QueuesKept* queues_kept(const std::shared_ptr<const void>& owner) noexcept {
  return std::get_deleter<DropQueuesKept>(owner) != nullptr ? static_cast<const QueuesKept*>(owner.get()) : nullptr;
}

}  // namespace

void wait_in_driver(const std::shared_ptr<device::Context>& context, const device::Event& event) {
  context->wait(event);
}

std::shared_ptr<device::Context> context_of_work(const device::Memory& memory, const device::DriverRegistry& drivers) {
  memory.check_reach();
  return memory.context != nullptr ? memory.context : drivers.context(memory.device);
}

void order_on(const device::Memory& memory, device::Context& context, const device::Queue& queue) {
  if (memory.queue == queue && context.in_order(queue)) {
    memory.event.check();
    if (!memory.queue_covers_event()) context.order_after(queue, memory.event);
    return;
  }
  const device::Event event = memory.pending();
  if (event.native() == nullptr) return;
  device::Context* const theirs = memory.context.get();
  if (theirs != nullptr && theirs->driver_name() != context.driver_name()) return theirs->wait(event);
  context.order_after(queue, event);
}

void order_on(const device::Memory& memory, const device::Queue& queue, const device::DriverRegistry& drivers,
              const WaitFunction& wait) {
  if (memory.ready()) return;
  const auto context = drivers.context(queue);
  const auto theirs = context_of_work(memory, drivers);
  if (theirs->driver_name() != context->driver_name()) return wait(theirs, memory.pending());
  order_on(memory, *context, queue);
}

void order_on(const array::Tensor& tensor, const device::Queue& queue, const device::DriverRegistry& drivers,
              const WaitFunction& wait) {
  if (tensor.mask) order_on(*tensor.mask, queue, drivers, wait);
  order_on(static_cast<const device::Memory&>(tensor), queue, drivers, wait);
}

void add_work(device::Memory* memory, const std::shared_ptr<device::Context>& context, const device::Event& event,
              const device::DriverRegistry& drivers, const WaitFunction& wait) {
  if (event.need() == nullptr) return;
  const bool first = memory->ready();
  const bool on_host = memory->device.type == device::DeviceType::kCpu;
  const std::shared_ptr<device::Context> its = first && on_host ? context : context_of_work(*memory, drivers);
  if (its->device() != context->device()) return wait(context, event);
  if (first) {
    memory->event = event;
    memory->context = context;
    return;
  }
  const bool own = memory->queue && memory->queue->usable_here();
  const device::Queue queue = own ? *memory->queue
                              : memory->native_context == nullptr
                                  ? its->make_queue()
                                  : drivers.queue_in(memory->device, memory->context_handle());
  const std::shared_ptr<device::Context> works = own ? its : drivers.context(queue);
  order_on(*memory, *works, queue);
  works->order_after(queue, event);
  free_after_queue(memory, works, queue);
  memory->set_queue(works, queue);
}

void wait_ready(device::Memory* memory, device::Context& context) {
  if (memory->ready()) return;
  (memory->context != nullptr ? *memory->context : context).wait(memory->pending());
  forget_work(memory);
}

void wait_for(const device::Memory& memory, const device::DriverRegistry& drivers, const WaitFunction& wait) {
  if (!memory.ready()) wait(context_of_work(memory, drivers), memory.pending());
}

void wait_for(const array::Tensor& tensor, const device::DriverRegistry& drivers, const WaitFunction& wait) {
  if (tensor.mask) wait_for(*tensor.mask, drivers, wait);
  wait_for(static_cast<const device::Memory&>(tensor), drivers, wait);
}

void keep_queue(device::Memory* memory) {
  if (!memory->queue) return;
  const QueuesKept* const before = queues_kept(memory->owner);
  if (before != nullptr && std::ranges::find(before->queues, *memory->queue) != before->queues.end()) return;
  std::unique_ptr<QueuesKept> kept = extended(*memory, before);
  kept->queues.push_back(*memory->queue);
  set_owner(memory, std::move(kept));
}

void free_after_queue(device::Memory* memory, const std::shared_ptr<device::Context>& context,
                      const device::Queue& queue) {
  keep_queue(memory);
  if (memory->queue == queue || memory->owner.use_count() == 0) return;  // an owner may be one of a null pointer
  const QueuesKept* const before = queues_kept(memory->owner);
  const auto same = [&](const QueueUsed& used) { return used.queue.asked() == queue; };
  if (before != nullptr && std::ranges::any_of(before->used, same)) return;
  std::unique_ptr<QueuesKept> kept = extended(*memory, before);
  kept->used.push_back({context, OwningQueue(context, queue)});
  set_owner(memory, std::move(kept));
}

void forget_work(device::Memory* memory) {
  keep_queue(memory);
  memory->event = {};
  memory->queue.reset();
  memory->context.reset();
  memory->recorded = {};
}

void share_with_host(device::Memory* memory) noexcept {
  memory->device = {};
  memory->kind = device::MemoryKind::kHost;
  memory->native_context.reset();
}

array::Tensor without_event(array::Tensor tensor) {
  if (tensor.mask) tensor.mask = std::make_shared<const array::Tensor>(without_event(*tensor.mask));
  forget_work(&tensor);
  return tensor;
}

}  // namespace crossdock::exchange
