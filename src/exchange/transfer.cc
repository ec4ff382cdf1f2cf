#include <memory>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/exchange/batch.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "exchange/contexts.h"

namespace crossdock::exchange {
namespace {

using array::RecordBatch;
using array::Tensor;
using device::Context;
using device::Device;
using device::DeviceType;
using device::DriverRegistry;
using device::Memory;
using device::MemoryKind;
using device::Queue;

bool in_host_memory(const Memory& memory) noexcept { return memory.device.type == DeviceType::kCpu; }

/// True if the memory's queue is one of another driver than `executor`'s: it can't be ordered after the copy.
bool is_on_foreign_queue(const Memory& memory, const Context& executor) noexcept {
  return memory.queue && memory.context && memory.context->driver_name() != executor.driver_name();
}
bool is_on_foreign_queue(const Tensor& tensor, const Context& executor) noexcept {
  if (tensor.mask && is_on_foreign_queue(*tensor.mask, executor)) return true;
  return is_on_foreign_queue(static_cast<const Memory&>(tensor), executor);
}

/// Waits for work that the queues of the executor can't be ordered after: that of other drivers. Such work isn't
/// pending on the tensor then.
void prepare(Tensor* tensor, const CopyPlan& plan, const DriverRegistry& drivers, const WaitFunction& wait) {
  if (tensor->mask) {
    Tensor mask = *tensor->mask;
    prepare(&mask, plan, drivers, wait);
    tensor->mask = std::make_shared<const Tensor>(std::move(mask));
  }
  if (tensor->ready()) return;
  const auto theirs = context_of_work(*tensor, drivers);
  if (theirs->driver_name() == plan.executor->driver_name()) return;
  wait(theirs, tensor->pending());
  forget_work(tensor);
}

/// Does the same for a batch. Also waits for work on memory that the host reads, and reads sizes that the executor's
/// device can't read.
void prepare(RecordBatch* batch, const CopyPlan& plan, const DriverRegistry& drivers, const WaitFunction& wait) {
  const bool on_host = batch->host_accessible();
  const auto theirs = context_of_work(*batch, drivers);
  if (!batch->ready() && (on_host || theirs->driver_name() != plan.executor->driver_name())) {
    wait(theirs, batch->pending());
    mark_ready(batch);
  }
  if (!on_host && plan.source->device() != plan.executor->device()) {
    resolve_sizes(batch, plan.source, drivers.queue_in(batch->device, batch->context_handle()));
  }
}

/// Waits for the end of a copy, which is the event of what it made. Nothing else is pending on that.
void wait_for_copy(const Memory& made, const std::shared_ptr<Context>& executor, const WaitFunction& wait) {
  if (made.event.need() != nullptr) wait(executor, made.event);
}

/// Makes what was copied to the host ordinary host memory. The caller has waited for the copy.
void finish(Tensor* made) { *made = without_event(std::move(*made)); }
void finish(RecordBatch* made) { mark_ready(made); }

/// Returns the device whose queues make a copy: the target's, or the source's if the target is the host.
Device copying_device(const Device& to, const Device& from, const Queue* queue, const DriverRegistry& drivers) {
  const Device& memory = to.type == DeviceType::kCpu ? from : to;
  const Device works = drivers.for_type(memory.type)->owning_device(memory);
  if (queue != nullptr && queue->device() != works) {
    throw InvalidArgumentError("the queue is one of " + device::to_string(queue->device()) + ", but the copy from " +
                               device::to_string(from) + " to " + device::to_string(to) +
                               (works == Device{} ? " uses no queue; leave the queue out"
                                                  : " runs on a queue of " + device::to_string(works)));
  }
  return works;
}

/// Returns the reason why no queue that reaches `from` can copy to where `queue` works; null if there is none.
const char* why_through_host(const Memory& from, const Queue& queue, const DriverRegistry& drivers) {
  if (in_host_memory(from)) return nullptr;
  if (!drivers.for_type(from.device.type)->handles(queue.device().type)) return "no driver reaches both";
  if (in_another_context(from, queue, drivers)) return "they are in two native contexts, which share no device memory";
  return nullptr;
}

/// Makes the first half of a copy through the host, and reports it to `log`.
template <class Array>
Array through_host(const Array& from, const Device& target, const char* why, const DriverRegistry& drivers,
                   const WaitFunction& wait, const LogCallback& log) {
  if (log) {
    log(LogLevel::kInfo, "copying " + std::to_string(from.nbytes()) + " bytes from " + device::to_string(from.device) +
                             " to " + device::to_string(target) + " through the host: " + why);
  }
  return transfer(from, Device{}, std::nullopt, nullptr, drivers, wait);
}

template <class Array>
Array transfer_any(Array from, const Device& target, std::optional<MemoryKind> kind, const Queue* queue,
                   const DriverRegistry& drivers, const WaitFunction& wait, const LogCallback& log) {
  const bool from_host = in_host_memory(from);
  const bool to_host = target.type == DeviceType::kCpu;
  const Device works = copying_device(target, from.device, queue, drivers);
  Queue copy_queue = queue != nullptr ? *queue : drivers.default_queue(works);
  if (!to_host) {
    if (const char* const why = why_through_host(from, copy_queue, drivers)) {
      return transfer(through_host(from, target, why, drivers, wait, log), target, kind, queue, drivers, wait);
    }
  } else if (in_another_context(from, copy_queue, drivers)) {
    copy_queue = queue_beside(from, drivers);
  }
  const auto executor = drivers.context(copy_queue);
  const CopyPlan plan{.to = to_host ? drivers.context(target) : executor,
                      .kind = kind.value_or(device::kind_of(target.type)),
                      .executor = executor,
                      .queue = copy_queue,
                      .source = from_host ? nullptr : drivers.context(from.device, from.context_handle())};
  // Before prepare(), which forgets such a queue.
  const bool foreign = is_on_foreign_queue(from, *executor);
  prepare(&from, plan, drivers, wait);
  Array made = copy(from, plan);
  if (made.owner == nullptr) made.device = target;  // an array without memory still names its target device
  // Without a queue, the caller may read the result, or change the source, as soon as this returns. With a queue, the
  // caller continues on that queue, even if another one had to make the copy.
  const bool complete_on_return =
      queue != nullptr ? copy_queue != *queue : from_host || to_host || from.host_accessible();
  if (!complete_on_return && !foreign) return made;
  wait_for_copy(made, executor, wait);
  if (complete_on_return && to_host) finish(&made);
  return made;
}

}  // namespace

Tensor transfer(const Tensor& from, const Device& target, std::optional<MemoryKind> kind, const Queue* queue,
                const DriverRegistry& drivers, const WaitFunction& wait, const LogCallback& log) {
  return transfer_any(from, target, kind, queue, drivers, wait, log);
}

RecordBatch transfer(const RecordBatch& from, const Device& target, std::optional<MemoryKind> kind, const Queue* queue,
                     const DriverRegistry& drivers, const WaitFunction& wait, const LogCallback& log) {
  return transfer_any(from, target, kind, queue, drivers, wait, log);
}

Tensor on_host(const Tensor& from, const DriverRegistry& drivers, const WaitFunction& wait, const LogCallback& log) {
  const bool shared = from.host_accessible() && (!from.mask || from.mask->host_accessible());
  if (!shared) return transfer(from, Device{}, {}, nullptr, drivers, wait, log);
  Tensor here = from;
  if (here.mask) here.mask = std::make_shared<const Tensor>(on_host(*here.mask, drivers, wait, log));
  wait_for(here, drivers, wait);
  forget_work(&here);
  share_with_host(&here);
  return here;
}

RecordBatch on_host(const RecordBatch& from, const DriverRegistry& drivers, const WaitFunction& wait,
                    const LogCallback& log) {
  if (!from.host_accessible()) return transfer(from, Device{}, {}, nullptr, drivers, wait, log);
  RecordBatch here = from;
  wait_for(here, drivers, wait);
  share_with_host(&here);
  mark_ready(&here);
  return here;
}

Tensor transfer_into(const Tensor& to, const Tensor& from, const Queue* queue, const DriverRegistry& drivers,
                     const WaitFunction& wait, const LogCallback& log) {
  const Device works = copying_device(to.device, from.device, queue, drivers);
  const Queue first_choice = [&] {
    if (queue != nullptr) return *queue;
    for (const Tensor* one : {&to, &from}) {
      if (one->queue && one->queue->device() == works && one->queue->usable_here()) return *one->queue;
    }
    return drivers.default_queue(works);
  }();
  Queue copy_queue = in_another_context(to, first_choice, drivers) ? queue_beside(to, drivers) : first_choice;
  if (!in_host_memory(to)) {
    if (const char* const why = why_through_host(from, copy_queue, drivers)) {
      return transfer_into(to, through_host(from, to.device, why, drivers, wait, log), queue, drivers, wait);
    }
  } else if (in_another_context(from, copy_queue, drivers)) {
    copy_queue = queue_beside(from, drivers);
  }
  const auto executor = drivers.context(copy_queue);
  const CopyPlan plan{.to = executor,
                      .kind = to.kind,
                      .executor = executor,
                      .queue = copy_queue,
                      .source = in_host_memory(from) ? nullptr : drivers.context(from.device, from.context_handle())};
  Tensor source = from;
  Tensor target = to;
  prepare(&source, plan, drivers, wait);
  prepare(&target, plan, drivers, wait);
  Tensor made = copy_into(target, source, plan);
  // A caller that names a queue continues on it, even if another one had to make the copy.
  const bool goes_on =
      copy_queue == first_choice && (queue != nullptr || !(from.host_accessible() || to.host_accessible()));
  if (goes_on && !is_on_foreign_queue(from, *executor) && !is_on_foreign_queue(to, *executor)) return made;
  try {
    wait_for_copy(made, executor, wait);
  } catch (...) {
    // Only this call has the event, and the caller may use the memory as soon as this returns.
    if (to.host_accessible()) wait_for_copy(made, executor, wait_in_driver);
    throw;
  }
  return in_host_memory(to) ? without_event(std::move(made)) : made;
}

}  // namespace crossdock::exchange
