#include "crossdock/exchange/sync.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace crossdock::exchange {

namespace {

/// The owner that keep_queue() makes.
struct QueuesKept {
  std::shared_ptr<const void> owner;
  std::vector<device::Queue> queues;
};

/// Deleter of QueuesKept. Its type tells which owners are such a list: an owner is otherwise only a pointer.
struct DropQueuesKept {
  void operator()(const QueuesKept* kept) const noexcept { delete kept; }
};

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

void order_on(const array::Tensor& tensor, const device::Queue& queue, const device::DriverRegistry& drivers,
              const WaitFunction& wait) {
  if (tensor.mask) order_on(*tensor.mask, queue, drivers, wait);
  if (tensor.ready()) return;
  const auto context = drivers.context(queue);
  const auto theirs = context_of_work(tensor, drivers);
  if (theirs->driver_name() != context->driver_name()) return wait(theirs, tensor.pending());
  order_on(tensor, *context, queue);
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
  const device::Queue queue = memory->queue && memory->queue->usable_here() ? *memory->queue : its->make_queue();
  order_on(*memory, *its, queue);
  its->order_after(queue, event);
  keep_queue(memory);
  memory->set_queue(its, queue);
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
  auto kept = std::unique_ptr<QueuesKept, DropQueuesKept>(new QueuesKept);
  if (before != nullptr) {
    *kept = *before;
  } else {
    kept->owner = memory->owner;
  }
  kept->queues.push_back(*memory->queue);
  memory->owner = std::shared_ptr<const void>(std::shared_ptr<const QueuesKept>(std::move(kept)));
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
  memory->native_context = nullptr;
}

array::Tensor without_event(array::Tensor tensor) {
  if (tensor.mask) tensor.mask = std::make_shared<const array::Tensor>(without_event(*tensor.mask));
  forget_work(&tensor);
  return tensor;
}

}  // namespace crossdock::exchange
