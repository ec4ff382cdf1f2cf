#include "crossdock/exchange/batch.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "array/sizes.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/error.h"
#include "exchange/batch_copy.h"
#include "exchange/contexts.h"
#include "exchange/internal/batch_plan.h"

namespace crossdock::exchange {
namespace {

using array::RecordBatch;
using device::BufferRef;
using device::Context;
using device::DeviceType;
using device::MemoryKind;
using device::Queue;

using ContextPtr = std::shared_ptr<Context>;

BufferRef memory_of(const void* data, std::uint64_t size, const device::Memory& memory) noexcept {
  return {
      .data = const_cast<void*>(data), .size = size, .device = memory.device, .kind = memory.kind, .read_only = true};
}

BufferRef memory_of(const BatchPlan::Part& part, const device::Memory& memory) noexcept {
  return memory_of(part.from, part.size, part.on_host ? device::Memory{} : memory);
}

BufferRef host_memory(void* data, std::uint64_t size) noexcept {
  return {.data = data, .size = size, .device = {}, .kind = MemoryKind::kHost, .read_only = false};
}

/// Host memory for a queue to work on. It is freed after that work.
struct Scratch {
  BufferRef memory;
  std::shared_ptr<const void> owner;
};
Scratch make_scratch(std::uint64_t size, const ContextPtr& context, const OwningQueue& queue) {
  std::shared_ptr<std::byte[]> bytes(new std::byte[size]);
  const BufferRef memory = host_memory(bytes.get(), size);
  return {memory, owned_on_queue(device::Buffer(memory, std::move(bytes)), context, queue)};
}

/// Prepares a batch for planning: no pending work on host memory, sizes known, structure checked.
RecordBatch prepared(RecordBatch from, const ContextPtr& executor, const Queue& queue) {
  if (device::host_reaches(from.device.type)) {
    wait_ready(&from, *executor);
    std::int64_t copied = 0;
    return array::normalized(std::move(from), &copied, array::Offsets::kFromZero);
  }
  if (from.device != executor->device() && !from.sizes_known()) {
    throw InvalidArgumentError("the sizes of a batch on " + device::to_string(from.device) + " aren't known, and " +
                               device::to_string(executor->device()) +
                               " can't read them: call resolve_sizes() with the batch's own context first");
  }
  resolve_sizes(&from, executor, queue);
  array::check_structure(from);
  return from;
}

/// Gathers the small parts in one host buffer and copies them in one call.
void copy_gathered(const BatchPlan& plan, std::span<const BatchPlan::Part> parts, const BufferRef& target,
                   const ContextPtr& executor, const OwningQueue& queue) {
  if (parts.empty()) return;
  const Scratch scratch = make_scratch(plan.gathered_bytes(), executor, queue);
  auto* bytes = static_cast<std::byte*>(scratch.memory.data);
  std::uint64_t end = 0;
  for (const BatchPlan::Part& part : parts) {
    std::memset(bytes + end, 0, part.at - end);
    std::memcpy(bytes + part.at, part.from, part.size);
    end = part.at + part.size;
  }
  std::memset(bytes + end, 0, scratch.memory.size - end);
  executor->copy(target.slice(0, scratch.memory.size), scratch.memory.as_read_only(), queue.queue());
}

}  // namespace

void wait_ready(RecordBatch* batch, Context& context) {
  if (batch->ready()) return;
  wait_ready(static_cast<device::Memory*>(batch), context);
  mark_ready(batch);
}

void mark_ready(RecordBatch* batch) {
  for (RecordBatch* dictionary : array::own_dictionaries(batch)) forget_work(dictionary);
  forget_work(batch);
  if (batch->host_readable()) array::read_sizes(batch);
}

void share_with_host(RecordBatch* batch) {
  for (RecordBatch* dictionary : array::own_dictionaries(batch)) share_with_host(dictionary);
  share_with_host(static_cast<device::Memory*>(batch));
}

void resolve_sizes(RecordBatch* batch, const ContextPtr& context, const Queue& queue) {
  if (batch->host_readable()) return array::read_sizes(batch);
  const std::vector<array::SizesAt> unknown = array::unknown_sizes(batch);
  if (unknown.empty()) return;
  std::uint64_t total = 0;
  for (const array::SizesAt& at : unknown) total += static_cast<std::uint64_t>(at.nbytes());
  order_on(*batch, *context, queue);
  const Scratch scratch = make_scratch(total, context, OwningQueue(context, queue));
  start_work(*context, queue, [&](device::Event* copied) {
    std::uint64_t offset = 0;
    for (const array::SizesAt& at : unknown) {
      const auto size = static_cast<std::uint64_t>(at.nbytes());
      const BufferRef place = scratch.memory.slice(offset, size);
      const BufferRef source = memory_of(at.numbers, size, *batch);
      offset += size;
      if (&at != &unknown.back()) {
        context->copy(place, source, queue);
      } else {
        *copied = context->copy_recorded(place, source, queue);
      }
    }
    context->wait(*copied);
  });
  const auto* numbers = static_cast<const std::byte*>(scratch.memory.data);
  for (const array::SizesAt& at : unknown) {
    array::set_sizes(at, numbers);
    numbers += at.nbytes();
  }
}

BatchCopy::BatchCopy(const RecordBatch& from, bool to_host, ContextPtr executor, const Queue& queue)
    : from_(from), executor_(std::move(executor)), queue_(executor_, queue) {
  if (!device::has_addresses(from.device.type)) {
    throw UnsupportedError("memory of " + device::to_string(from.device) +
                           " has handles instead of addresses, which can't be copied here");
  }
  plan_ = std::make_shared<BatchPlan>(std::make_shared<const RecordBatch>(prepared(from, executor_, queue_.queue())),
                                      to_host);
  n_gathered_ = plan_->lay_out(!is_host(*executor_));
  if (plan_->bytes() > 0 && !device::host_reaches(from.device.type)) order_on(from_, *executor_, queue_.queue());
}

BatchCopy::BatchCopy(const RecordBatch& from, const device::DriverRegistry& drivers, bool to_host)
    : BatchCopy(from, to_host, drivers.context(from.device, from.context_handle()), queue_beside(from, drivers)) {}

std::uint64_t BatchCopy::bytes() const noexcept { return plan_->bytes(); }

bool BatchCopy::normal() const {
  return std::ranges::all_of(plan_->made(), [](const RecordBatch* batch) {
    return std::ranges::all_of(batch->nodes, [](const array::Node& node) { return node.offset == 0; });
  });
}

std::optional<RecordBatch> BatchCopy::in_place(const std::function<bool(const void*, std::uint64_t)>& stays) {
  const auto& parts = plan_->parts();
  const bool all = std::ranges::all_of(
      parts, [&](const BatchPlan::Part& part) { return !part.on_host && stays(part.from, part.size); });
  if (parts.empty() || !all) return std::nullopt;
  for (const BatchPlan::Part& part : parts) *part.address = part.from;
  for (RecordBatch* batch : plan_->made()) static_cast<device::Memory&>(*batch) = from_;
  return plan_->take();
}

device::Event BatchCopy::start(const BufferRef& target) {
  return start_work(*executor_, queue(), [&](device::Event* copied) { start_copies(target, copied); });
}

void BatchCopy::start_copies(const BufferRef& target, device::Event* copied) {
  const bool by_host = is_host(*executor_);
  const std::span<const BatchPlan::Part> parts = plan_->parts();
  copy_gathered(*plan_, parts.first(n_gathered_), target, executor_, queue_);
  for (std::size_t i = n_gathered_; i < parts.size(); ++i) {
    const BatchPlan::Part& part = parts[i];
    const BufferRef piece = target.slice(part.at, part.size);
    const BufferRef its = memory_of(part, from_);
    if (by_host || i + 1 < parts.size()) {
      executor_->copy(piece, its, queue());
    } else {
      *copied = executor_->copy_recorded(piece, its, queue());
    }
  }
  if (by_host) return;
  if (n_gathered_ == parts.size()) *copied = executor_->record(queue());
  queue_.order_caller_after(*copied);
  order_producer_after(from_, *copied, *executor_, queue());
}

RecordBatch BatchCopy::made(const BufferRef& target, const std::shared_ptr<const void>& owner,
                            const device::Event* done) {
  for (const BatchPlan::Part& part : plan_->parts()) *part.address = static_cast<std::byte*>(target.data) + part.at;
  for (RecordBatch* batch : plan_->made()) {
    batch->device = target.device;
    batch->kind = target.kind;
    batch->native_context = target.data != nullptr ? context_of_new(target.device, queue()) : nullptr;
    batch->owner = owner;
    if (done != nullptr) batch->set_queue(executor_, queue(), *done);
  }
  return plan_->take();
}

RecordBatch BatchCopy::into(device::Buffer target) && {
  const BufferRef memory = target.ref();
  if (bytes() == 0) return made(memory, nullptr, nullptr);
  const bool by_host = is_host(*executor_);
  // From here on, after a throw, the memory is freed only after the work that was started.
  const std::shared_ptr<const void> owner =
      by_host ? target.release() : owned_on_queue(std::move(target), executor_, queue_);
  std::shared_ptr<const void> kept;  // all memory that the copies read
  if (!by_host && n_gathered_ < plan_->parts().size()) {
    const BufferRef first = memory_of(plan_->parts()[n_gathered_], from_);
    kept = owned_on_queue(device::Buffer(first, plan_), executor_, queue_);
  }
  const device::Event done = start(memory);
  return made(memory, owner, by_host ? nullptr : &done);
}

RecordBatch BatchCopy::into(const std::shared_ptr<device::DeviceArena>& arena) && {
  device::Buffer target({.data = nullptr, .size = 0, .device = arena->context()->device()}, nullptr);
  if (bytes() > 0) target = {arena->allocate(bytes()), arena};
  return std::move(*this).into(std::move(target));
}

RecordBatch BatchCopy::to_host(std::byte* memory, const std::shared_ptr<const void>& owner,
                               const WaitFunction& wait) && {
  const BufferRef target = host_memory(memory, bytes());
  if (bytes() == 0) return made(target, nullptr, nullptr);
  auto used = std::make_shared<std::pair<std::shared_ptr<BatchPlan>, std::shared_ptr<const void>>>(plan_, owner);
  try {
    wait(executor_, start(target));
  } catch (...) {
    owned_on_queue(device::Buffer(target, std::move(used)), executor_, queue_);  // and drops it
    throw;
  }
  return made(target, owner, nullptr);
}

RecordBatch copy(const RecordBatch& from, const CopyPlan& plan) {
  const Context& to = *plan.to;
  BatchCopy copy(from, is_host(to), plan.executor, plan.queue);
  device::Buffer target({.data = nullptr, .size = 0, .device = to.device(), .kind = plan.kind}, nullptr);
  if (copy.bytes() > 0) {
    const bool one_queue = to.device() == plan.executor->device();
    target = plan.to->allocate(copy.bytes(), plan.kind, device::Sharing::kPrivate,
                               one_queue ? copy.queue() : plan.to->make_queue());
  }
  return std::move(copy).into(std::move(target));
}

RecordBatch copy(const RecordBatch& from, const std::shared_ptr<device::DeviceArena>& arena, const Queue& queue) {
  if (!arena) throw InvalidArgumentError("copying a batch to an arena of a device: there is no arena");
  if (!from.host_readable() && from.device != arena->context()->device()) {
    throw InvalidArgumentError("copying a batch to an arena of " + device::to_string(arena->context()->device()) +
                               ": the batch is on " + device::to_string(from.device));
  }
  return BatchCopy(from, false, arena->context(), queue).into(arena);
}

}  // namespace crossdock::exchange
