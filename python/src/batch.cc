#include "batch.h"

#include <memory>
#include <string>
#include <utility>

#include "crossdock/array/tensor.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/batch.h"
#include "crossdock/exchange/sync.h"
#include "gil.h"
#include "tensor/transfer.h"
#include "wait.h"

namespace crossdock::python {
namespace {

using array::RecordBatch;
using device::Device;
using device::DeviceType;
using device::MemoryKind;
using device::Queue;

void wait_here(RecordBatch* batch) {
  if (batch->ready()) return;
  wait_for_event(exchange::context_of_work(*batch, drivers()), batch->pending());
  exchange::mark_ready(batch);
}

/// Implements copy_to(). `named` is the queue, or null. Call without the GIL.
RecordBatch copied(RecordBatch batch, const Device& target, const Queue* named) {
  const bool from_host = batch.device.type == DeviceType::kCpu;
  const bool to_host = target.type == DeviceType::kCpu;
  const auto to = drivers().context(target);
  if (from_host) wait_here(&batch);
  const Device& moving = to_host ? batch.device : target;
  const auto executor = drivers().context(moving);
  if (named != nullptr && named->device() != executor->device()) {
    throw InvalidArgumentError("the queue is one of " + device::to_string(named->device()) + ", but the copy from " +
                               device::to_string(batch.device) + " to " + device::to_string(target) +
                               " runs on a queue of " + device::to_string(executor->device()));
  }
  if (from_host && to_host) return exchange::copy(batch, to, MemoryKind::kHost, to, to->make_queue());
  const Queue queue = named != nullptr ? *named : drivers().default_queue(moving);
  if (from_host) {
    RecordBatch result = exchange::copy(batch, to, array::kind_of(target.type), to, queue);
    // A caller that names no queue may change the source as soon as this returns.
    if (named == nullptr) wait_here(&result);
    return result;
  }
  const auto from = drivers().context(batch.device);
  if (to_host) {
    RecordBatch result = exchange::copy(batch, to, MemoryKind::kHost, from, queue);
    if (named == nullptr) wait_here(&result);
    return result;
  }
  // A driver can't access memory of another driver, so the copy is made in two steps, through host memory.
  if (from->driver_name() != to->driver_name()) {
    return copied(copied(std::move(batch), Device{}, nullptr), target, named);
  }
  const Queue own = drivers().default_queue(batch.device);
  exchange::resolve_sizes(&batch, from, own);
  RecordBatch result = exchange::copy(batch, to, array::kind_of(target.type), to, queue);
  // The source's memory may be freed on its device's own queue.
  if (result.event.native() != nullptr) from->order_after(own, result.event);
  return result;
}

}  // namespace

RecordBatch copy_to(const RecordBatch& batch, const Device& target, const Queue* queue) {
  RecordBatch mine = batch;  // A copy, because other threads may use `batch` once the GIL is released.
  const GilRelease release;
  return copied(std::move(mine), target, queue);
}

RecordBatch waited_for(const RecordBatch& batch) {
  RecordBatch mine = batch;
  if (mine.ready()) return mine;
  const GilRelease release;
  wait_here(&mine);
  return mine;
}

RecordBatch brought_to_host(RecordBatch batch) {
  if (!array::host_reaches(batch.device.type)) return copied(std::move(batch), Device{}, nullptr);
  wait_here(&batch);
  exchange::share_with_host(&batch);
  return batch;
}

RecordBatch on_host(const RecordBatch& batch) {
  if (batch.device.type == DeviceType::kCpu && batch.ready()) return batch;
  RecordBatch mine = batch;
  const GilRelease release;
  return brought_to_host(std::move(mine));
}

}  // namespace crossdock::python
