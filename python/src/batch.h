#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/record_batch.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"

/// Where record batches meet drivers: copies and waits, with the drivers of the default session context. Needs the
/// interpreter lock, and releases it where it waits or copies. Throws what the drivers throw.
namespace crossdock::python {

/// A copy in memory of `target`, on `queue`, or on the default queue of the device that makes it (null). On a queue of
/// the caller's it may be under way when this returns, and the result's event says when it is done; else it is done if
/// one of the two is the host.
array::RecordBatch copy_to(const array::RecordBatch& batch, const device::Device& target, const device::Queue* queue);

/// The same batch with nothing left to wait for, and so without an event. Throws the failure of the work.
array::RecordBatch waited_for(const array::RecordBatch& batch);

/// The batch if it is in ordinary host memory; else a copy there. Either may be touched now.
array::RecordBatch on_host(const array::RecordBatch& batch);

/// The same for threads without the interpreter lock.
array::RecordBatch brought_to_host(array::RecordBatch batch);

}  // namespace crossdock::python
