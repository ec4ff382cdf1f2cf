#include "batch.h"

#include <memory>
#include <utility>

#include "crossdock/device/registry.h"
#include "crossdock/exchange/batch.h"
#include "crossdock/session/context.h"
#include "gil.h"

namespace crossdock::python {
namespace {

using array::RecordBatch;
using device::Device;
using device::DeviceType;
using device::MemoryKind;
using device::Queue;

const device::DriverRegistry& drivers() { return *session::Context::default_context()->drivers(); }

/// Whose event it is: host memory may be the target of a device's work.
Device event_device(const RecordBatch& batch) { return batch.queue ? batch.queue->device() : batch.device; }

/// Which memory of the device's family its type says: pinned and managed memory have types of their own.
MemoryKind kind_of(DeviceType type) noexcept {
  if (device::host_readable(type)) return MemoryKind::kHost;
  return type == DeviceType::kCudaManaged ? MemoryKind::kShared : MemoryKind::kDevice;
}

void wait_here(RecordBatch* batch) {
  if (exchange::is_ready(*batch)) return;
  const Device device = event_device(*batch);
  exchange::wait_ready(batch, *drivers().context(device));
}

/// Without the interpreter lock.
RecordBatch copied(RecordBatch batch, const Device& target) {
  const bool from_host = batch.device.type == DeviceType::kCpu;
  const bool to_host = target.type == DeviceType::kCpu;
  const auto to = drivers().context(target);
  if (from_host) wait_here(&batch);
  if (from_host && to_host) return exchange::copy(batch, to, MemoryKind::kHost, to, to->make_queue());
  if (from_host) return exchange::copy(batch, to, kind_of(target.type), to, drivers().default_queue(target));

  const auto from = drivers().context(batch.device);
  const Queue queue = drivers().default_queue(batch.device);
  if (to_host) {
    RecordBatch result = exchange::copy(batch, to, MemoryKind::kHost, from, queue);
    wait_here(&result);
    return result;
  }
  // No driver reaches the memory of another: by way of the host.
  if (from->driver_name() != to->driver_name()) return copied(copied(std::move(batch), Device{}), target);
  exchange::resolve_sizes(&batch, from, queue);
  RecordBatch result = exchange::copy(batch, to, kind_of(target.type), to, drivers().default_queue(target));
  // What its own queues do with the memory later, giving it back included, comes after it was read.
  if (result.event.native() != nullptr) {
    from->order_after(queue, result.event);
    if (batch.queue && batch.queue->device() == batch.device) from->order_after(*batch.queue, result.event);
  }
  return result;
}

}  // namespace

RecordBatch copy_to(const RecordBatch& batch, const Device& target) {
  RecordBatch mine = batch;  // Other threads may wait for the same one meanwhile.
  const GilRelease release;
  return copied(std::move(mine), target);
}

RecordBatch waited_for(const RecordBatch& batch) {
  RecordBatch mine = batch;
  if (exchange::is_ready(mine)) return mine;
  const GilRelease release;
  wait_here(&mine);
  return mine;
}

RecordBatch on_host(const RecordBatch& batch) {
  return batch.device.type == DeviceType::kCpu ? waited_for(batch) : copy_to(batch, Device{});
}

}  // namespace crossdock::python
