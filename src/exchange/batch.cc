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
#include "crossdock/exchange/sync.h"
#include "exchange/internal/batch_plan.h"
#include "exchange/internal/queue_owned.h"

namespace crossdock::exchange {
namespace {

using array::RecordBatch;
using device::BufferRef;
using device::Context;
using device::Device;
using device::DeviceType;
using device::MemoryKind;
using device::Queue;

using ContextPtr = std::shared_ptr<Context>;

BufferRef memory_of(const void* data, std::uint64_t size, const Device& device) noexcept {
  return {.data = const_cast<void*>(data),
          .size = size,
          .device = device,
          .kind = device::kind_of(device.type),
          .read_only = true};
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

/// Keeps all memory that the copies read until they are done. Makes one call of the driver for each part, so that the
/// number of calls depends on the number of buffers and not on where they lie.
std::vector<std::shared_ptr<const void>> keep_on_queue(const std::shared_ptr<BatchPlan>& plan, std::size_t first,
                                                       const Device& device, const ContextPtr& context,
                                                       const OwningQueue& queue) {
  std::vector<std::shared_ptr<const void>> kept;
  for (const BatchPlan::Part& part : std::span(plan->parts()).subspan(first)) {
    const BufferRef memory = memory_of(part.from, part.size, part.on_host ? Device{} : device);
    kept.push_back(owned_on_queue(device::Buffer(memory, plan), context, queue));
  }
  return kept;
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
  std::uint64_t offset = 0;
  for (const array::SizesAt& at : unknown) {
    const auto size = static_cast<std::uint64_t>(at.nbytes());
    context->copy(scratch.memory.slice(offset, size), memory_of(at.numbers, size, batch->device), queue);
    offset += size;
  }
  device::Event done = context->record(queue);
  context->wait(done);
  const auto* numbers = static_cast<const std::byte*>(scratch.memory.data);
  for (const array::SizesAt& at : unknown) {
    array::set_sizes(at, numbers);
    numbers += at.nbytes();
  }
}

RecordBatch copy(const RecordBatch& from, const CopyPlan& how) {
  const ContextPtr& to = how.to;
  const ContextPtr& executor = how.executor;
  if (!device::has_addresses(from.device.type)) {
    throw UnsupportedError("memory of " + device::to_string(from.device) +
                           " has handles instead of addresses, which can't be copied here");
  }
  const bool by_host = executor->device().type == DeviceType::kCpu;
  const OwningQueue owning(executor, how.queue);
  const Queue& queue = owning.queue();
  const auto plan = std::make_shared<BatchPlan>(std::make_shared<const RecordBatch>(prepared(from, executor, queue)),
                                                to->device().type == DeviceType::kCpu);
  const std::size_t n_gathered = plan->lay_out(!by_host);
  const std::vector<RecordBatch*> made = plan->made();
  if (plan->bytes() == 0) {
    for (RecordBatch* batch : made) {
      batch->device = to->device();
      batch->kind = how.kind;
    }
    return plan->take();
  }

  if (!device::host_reaches(from.device.type)) order_on(from, *executor, queue);
  const bool one_queue = to->device() == executor->device();
  device::Buffer target =
      to->allocate(plan->bytes(), how.kind, device::Sharing::kPrivate, one_queue ? queue : to->make_queue());
  const BufferRef place = target.ref();
  for (BatchPlan::Part& part : plan->parts()) *part.address = static_cast<std::byte*>(place.data) + part.at;
  RecordBatch result = plan->take();
  const std::span<const BatchPlan::Part> parts = plan->parts();
  // From here on, after a throw, the memory is freed only after the work that was started.
  const std::shared_ptr<const void> owner =
      by_host ? target.release() : owned_on_queue(std::move(target), executor, owning);
  std::vector<std::shared_ptr<const void>> kept;
  if (!by_host && n_gathered < parts.size()) kept = keep_on_queue(plan, n_gathered, from.device, executor, owning);
  copy_gathered(*plan, parts.first(n_gathered), place, executor, owning);
  device::Event done;
  for (std::size_t i = n_gathered; i < parts.size(); ++i) {
    const BatchPlan::Part& part = parts[i];
    const BufferRef piece = place.slice(part.at, part.size);
    const BufferRef its = memory_of(part.from, part.size, part.on_host ? Device{} : from.device);
    if (by_host || i + 1 < parts.size()) {
      executor->copy(piece, its, queue);
    } else {
      done = executor->copy_recorded(piece, its, queue);
    }
  }
  if (!by_host) {
    if (n_gathered == parts.size()) done = executor->record(queue);
    owning.order_caller_after(done);
    order_producer_after(from, done, *executor, queue);
  }
  const auto fill = [&](RecordBatch* batch) {
    batch->device = place.device;
    batch->kind = place.kind;
    batch->native_context = one_queue ? queue.native_context() : nullptr;
    batch->owner = owner;
    if (!by_host) batch->set_queue(executor, queue, done);
  };
  fill(&result);
  for (RecordBatch* dictionary : std::span(made).subspan(1)) fill(dictionary);
  return result;
}

}  // namespace crossdock::exchange
