#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/record_batch.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"

/// Operations on record batches that need a driver: copies and waits. They use the drivers of the default
/// session::Runtime, need the GIL unless a comment says otherwise, and release it while they wait or copy. They throw
/// the errors of the drivers.
namespace crossdock::python {

/// Copies a batch to memory of `target`. The copy runs on `queue`, or, if that is null, on the default queue of the
/// copy executor's device. With `queue`, the copy may still run when this returns; the result's event is its end.
/// Without one, a copy from or to the host is complete when this returns. Throws InvalidArgumentError for a queue of
/// another device.
array::RecordBatch copy_to(const array::RecordBatch& batch, const device::Device& target, const device::Queue* queue);

/// Waits for the work on the batch. Returns the same batch without an event. Throws the error of the work if it failed.
array::RecordBatch waited_for(const array::RecordBatch& batch);

/// Returns the batch in ordinary host memory. Shares memory that the host can access, copies other memory. Waits, so
/// the result is ready. May be called without the GIL once drivers() was called.
array::RecordBatch on_host(const array::RecordBatch& batch);

}  // namespace crossdock::python
