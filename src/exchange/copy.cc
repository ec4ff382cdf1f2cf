#include "crossdock/exchange/copy.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "exchange/contexts.h"
#include "exchange/internal/queue_owned.h"

namespace crossdock::exchange {
namespace {

using array::Tensor;
using device::BufferRef;
using device::Context;
using device::MemoryKind;
using device::Queue;

using ContextPtr = std::shared_ptr<Context>;

/// Limit of runs that are copied one by one, since each is a driver call. More runs are copied together with the gaps
/// between them and packed on the host.
constexpr std::int64_t kMostRuns = 1024;

BufferRef memory_of(const Tensor& tensor, std::int64_t offset, std::int64_t size) noexcept {
  return {.data = moved_by(tensor.data, offset),
          .size = static_cast<std::uint64_t>(size),
          .device = tensor.device,
          .kind = tensor.kind,
          .read_only = true};
}

/// Returns the number of runs of elements without gaps.
std::int64_t count_runs(const Tensor& from) noexcept {
  std::int64_t run = from.type.itemsize();
  std::size_t d = from.shape().size();
  while (d > 0 && (from.shape()[d - 1] == 1 || from.strides()[d - 1] == run)) run *= from.shape()[--d];
  std::int64_t runs = 1;
  while (d > 0) runs *= from.shape()[--d];
  return runs;
}

/// Calls `copy(offset in the source, offset in the target, bytes)` for each run.
template <class Copy>
void for_each_run(const Tensor& from, std::size_t dimension, std::int64_t source, std::int64_t* target, Copy&& copy) {
  std::int64_t run = from.type.itemsize();
  std::size_t d = from.shape().size();
  while (d > dimension && (from.shape()[d - 1] == 1 || from.strides()[d - 1] == run)) run *= from.shape()[--d];
  if (d == dimension) {
    copy(source, *target, run);
    *target += run;
    return;
  }
  for (std::int64_t i = 0; i < from.shape()[dimension]; ++i) {
    for_each_run(from, dimension + 1, source + i * from.strides()[dimension], target, copy);
  }
}

/// Returns the bytes that a tensor with elements spans.
BufferRef spanned_memory(const Tensor& tensor) {
  const array::ByteRange range = array::byte_range(tensor, "a tensor to copy");
  return memory_of(tensor, range.lowest, range.highest - range.lowest);
}

/// Keeps the tensor's memory until the queue is done with it, or the result is dropped.
std::shared_ptr<const void> keep_on_queue(const Tensor& tensor, const ContextPtr& context, const OwningQueue& queue) {
  return owned_on_queue(device::Buffer(spanned_memory(tensor), std::const_pointer_cast<void>(tensor.owner)), context,
                        queue);
}

/// Returns a tensor for a copy of `like` in C order, still without memory and mask.
Tensor without_memory(const Tensor& like, const device::Device& device, MemoryKind kind) {
  Tensor made;
  made.type = like.type;
  made.extents = like.extents;
  made.kind = kind;
  made.device = device;
  array::set_row_major(&made, "a copy");
  return made;
}

/// Returns a dense copy of `from`, a tensor in host memory without pending work.
Tensor packed(const Tensor& from, const ContextPtr& host) {
  Tensor made = without_memory(from, host->device(), MemoryKind::kHost);
  device::Buffer target = host->allocate(static_cast<std::uint64_t>(from.nbytes()), MemoryKind::kHost,
                                         device::Sharing::kPrivate, host->make_queue());
  made.data = target.data();
  if (made.data != nullptr) pack(from, made.data);
  made.owner = target.release();
  return made;
}

/// Starts copies of the elements of `from` into `place`, in C order. Returns the event of their end.
device::Event start_copies(const Tensor& from, const BufferRef& place, Context& executor, const Queue& queue) {
  BufferRef target;
  BufferRef source;
  std::int64_t offset = 0;
  for_each_run(from, 0, 0, &offset, [&](std::int64_t at, std::int64_t to_offset, std::int64_t size) {
    if (source.size != 0) executor.copy(target, source, queue);  // the copy of the previous run
    target = place.slice(static_cast<std::uint64_t>(to_offset), static_cast<std::uint64_t>(size));
    source = memory_of(from, at, size);
  });
  return executor.copy_recorded(target, source, queue);
}

Tensor copy_on_device(const Tensor& from, const CopyPlan& plan, const OwningQueue& owning) {
  const ContextPtr& executor = plan.executor;
  const Queue& queue = owning.queue();
  const bool empty = spanned_memory(from).size == 0;
  Tensor made = without_memory(from, plan.to->device(), plan.kind);
  if (empty) {
    made.set_queue(executor, queue);
    return made;
  }

  order_on(from, *executor, queue);
  const auto bytes = static_cast<std::uint64_t>(from.nbytes());
  const bool one_queue = plan.to->device() == executor->device();
  device::Buffer target =
      plan.to->allocate(bytes, plan.kind, device::Sharing::kPrivate, one_queue ? queue : plan.to->make_queue());
  const BufferRef place = target.ref();
  made.device = place.device;
  made.native_context = context_of_new(place.device, queue);
  made.data = place.data;
  // From here on, after a throw, the memory is freed only after the work that was started.
  made.owner = owned_on_queue(std::move(target), executor, owning);
  const std::shared_ptr<const void> source = keep_on_queue(from, executor, owning);
  made.set_queue(executor, queue, start_work(*executor, queue, [&](device::Event* copied) {
                   *copied = start_copies(from, place, *executor, queue);
                   order_producer_after(from, *copied, *executor, queue);
                   owning.order_caller_after(*copied);
                 }));
  return made;
}

/// Returns a copy in C order, in ordinary host memory that is ready now. `from` must be host memory, too.
Tensor dense_on_host(const Tensor& from) {
  Tensor dense = without_memory(from, {}, MemoryKind::kHost);
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(from.nbytes()));
  pack(from, bytes.get());
  if (from.data != nullptr) dense.data = bytes.get();
  dense.owner = std::shared_ptr<std::byte[]>(std::move(bytes));
  return dense;
}

/// Copies a source of too many runs to the host: all bytes that it spans, in one piece. Waits for that copy. `executor`
/// is a context that can copy from the source to the host.
Tensor packed_through_host(const Tensor& from, const ContextPtr& executor, const OwningQueue& owning) {
  const Queue& queue = owning.queue();
  const array::ByteRange range = array::byte_range(from, "a tensor to copy");
  const std::int64_t covered = range.highest - range.lowest;
  std::shared_ptr<std::byte[]> bytes(new std::byte[static_cast<std::size_t>(covered)]);
  const BufferRef place{.data = bytes.get(),
                        .size = static_cast<std::uint64_t>(covered),
                        .device = {},
                        .kind = MemoryKind::kHost,
                        .read_only = false};
  order_on(from, *executor, queue);
  // If a call throws, the queue keeps both until it is done with them.
  const auto target = owned_on_queue(device::Buffer(place, bytes), executor, owning);
  const auto source = keep_on_queue(from, executor, owning);
  start_work(*executor, queue, [&](device::Event* copied) {
    *copied = executor->copy_recorded(place, spanned_memory(from), queue);
    executor->wait(*copied);
  });
  Tensor view = from;
  view.device = {};
  view.data = bytes.get() - range.lowest;
  return dense_on_host(view);
}

/// Returns the elements of `from` in few runs that `executor` reaches.
Tensor with_few_runs(const Tensor& from, const ContextPtr& executor, const OwningQueue& owning,
                     const ContextPtr& source) {
  if (from.c_contiguous()) return from;
  if (from.device.type == device::DeviceType::kCpu && from.ready()) return dense_on_host(from);
  if (count_runs(from) <= kMostRuns) return from;
  // The target's context can't copy from a peer device to the host.
  const bool peers = source != nullptr && source->device() != executor->device();
  return peers ? packed_through_host(from, source, OwningQueue(source, source->make_queue()))
               : packed_through_host(from, executor, owning);
}

/// Makes a tensor in memory that `allocate(size, queue)` returns.
template <class Allocate>
Tensor new_tensor(const array::ElementType& type, std::span<const std::int64_t> shape, const ContextPtr& context,
                  MemoryKind kind, const Queue& queue, Allocate&& allocate) {
  if (shape.size() > static_cast<std::size_t>(array::kMaxTensorDimensions)) {
    throw InvalidArgumentError("a tensor has at most " + std::to_string(array::kMaxTensorDimensions) + " dimensions");
  }
  Tensor tensor;
  tensor.type = type;
  tensor.kind = kind;
  tensor.device = context->device();
  tensor.extents = array::Extents(static_cast<std::int32_t>(shape.size()));
  for (std::size_t d = 0; d < shape.size(); ++d) tensor.extents.shape()[d] = shape[d];
  array::set_row_major(&tensor, "a new tensor");
  const array::ByteRange range = array::byte_range(tensor, "a new tensor");
  const OwningQueue owning(context, queue);
  if (range.highest == 0) {
    if (!is_host(*context)) tensor.set_queue(context, owning.queue());
    return tensor;
  }
  device::Buffer buffer = allocate(static_cast<std::uint64_t>(range.highest), owning.queue());
  tensor.device = buffer.device();
  tensor.native_context = context_of_new(tensor.device, queue);
  tensor.data = buffer.data();
  tensor.owner = is_host(*context) ? buffer.release() : owned_on_queue(std::move(buffer), context, owning);
  if (is_host(*context)) return tensor;
  // Other queues may use the memory only after it was allocated on this one.
  tensor.set_queue(context, owning.queue());
  if (queue.thread_bound()) owning.order_caller_after(tensor.pending());
  return tensor;
}

}  // namespace

Tensor empty(const array::ElementType& type, std::span<const std::int64_t> shape, const ContextPtr& context,
             MemoryKind kind, const Queue& queue) {
  return new_tensor(type, shape, context, kind, queue, [&](std::uint64_t size, const Queue& on) {
    return context->allocate(size, kind, device::Sharing::kPrivate, on);
  });
}

Tensor empty(const array::ElementType& type, std::span<const std::int64_t> shape,
             const std::shared_ptr<device::DeviceArena>& arena, const Queue& queue) {
  return new_tensor(type, shape, arena->context(), MemoryKind::kDevice, queue,
                    [&](std::uint64_t size, const Queue&) { return device::Buffer(arena->allocate(size), arena); });
}

namespace {

Tensor copy_on(const OwningQueue& queue, const Tensor& from, const CopyPlan& plan) {
  const ContextPtr& executor = plan.executor;
  if (!device::has_addresses(from.device.type)) {
    throw UnsupportedError("memory of " + device::to_string(from.device) +
                           " has handles instead of addresses, which can't be copied here");
  }
  // Copies the mask first, so that the result's event comes after it.
  std::shared_ptr<const Tensor> mask;
  if (from.mask) mask = std::make_shared<const Tensor>(copy_on(queue, *from.mask, plan));
  Tensor made;
  if (is_host(*executor)) {
    made = packed(from, plan.to);
  } else if (from.device.type == device::DeviceType::kCpu && !from.c_contiguous() && from.ready()) {
    made = copy_on_device(dense_on_host(from), plan, queue);  // the queue keeps the temporary
  } else if (!from.c_contiguous() && count_runs(from) > kMostRuns) {
    made = with_few_runs(from, executor, queue, plan.source);
    if (!is_host(*plan.to)) made = copy_on_device(made, plan, queue);
  } else {
    made = copy_on_device(from, plan, queue);
  }
  made.mask = std::move(mask);
  return made;
}

void check_target(const Tensor& to, const Tensor& from) {
  if (to.read_only) throw InvalidArgumentError("the target of a copy is read-only");
  if (to.type != from.type || !std::ranges::equal(to.shape(), from.shape())) {
    throw InvalidArgumentError("elements of type " + array::element_type_name(from.type) + " and shape " +
                               array::shape_text(from.shape()) + " can't be copied into a tensor of type " +
                               array::element_type_name(to.type) + " and shape " + array::shape_text(to.shape()));
  }
  if (!to.c_contiguous()) throw UnsupportedError("the target of a copy must be in C order, without gaps");
  if (to.mask || from.mask) throw UnsupportedError("tensors with masks can only be copied to new memory");
  for (const Tensor* one : {&to, &from}) {
    if (device::has_addresses(one->device.type)) continue;
    throw UnsupportedError("memory of " + device::to_string(one->device) +
                           " has handles instead of addresses, which can't be copied here");
  }
}

}  // namespace

Tensor copy_into(const Tensor& to, const Tensor& from, const CopyPlan& plan) {
  check_target(to, from);
  const ContextPtr& executor = plan.executor;
  Tensor made = to;
  if (from.size() != 0 && spanned_memory(to).overlaps(spanned_memory(from))) {
    throw InvalidArgumentError("source and target of a copy overlap; copy the source to new memory first");
  }
  if (is_host(*executor)) {
    pack(from, to.data);
    return made;
  }
  const OwningQueue owning(executor, plan.queue);
  const Queue& queue = owning.queue();
  if (from.size() == 0) {
    free_after_queue(&made, executor, queue);
    made.set_queue(executor, queue);
    return made;
  }
  const Tensor few = with_few_runs(from, executor, owning, plan.source);
  // Each reader of the target has ordered the target's queue after its read (order_producer_after()).
  for (const Tensor* one : {&to, &few}) order_on(*one, *executor, queue);
  BufferRef place = spanned_memory(to);
  place.read_only = false;
  const auto target_kept = keep_on_queue(to, executor, owning);
  const auto source_kept = keep_on_queue(few, executor, owning);
  free_after_queue(&made, executor, queue);
  made.set_queue(executor, queue, start_work(*executor, queue, [&](device::Event* copied) {
                   *copied = start_copies(few, place, *executor, queue);
                   order_producer_after(few, *copied, *executor, queue);
                   order_producer_after(to, *copied, *executor, queue);
                   owning.order_caller_after(*copied);
                 }));
  return made;
}

Tensor copy(const Tensor& from, const CopyPlan& plan) {
  return copy_on(OwningQueue(plan.executor, plan.queue), from, plan);
}

}  // namespace crossdock::exchange
