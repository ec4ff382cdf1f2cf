#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/record_batch.h"
#include "crossdock/device/device.h"

/// Where record batches meet drivers: copies and waits, with the drivers of the default session context. Needs the
/// interpreter lock, and lets go of it where it waits or copies. Throws what the drivers throw.
namespace crossdock::python {

/// A copy in memory of `target`. It is done when this returns if the target is the host; else it may be under way on
/// the target's default queue, and the result's event says when it is done.
array::RecordBatch copy_to(const array::RecordBatch& batch, const device::Device& target);

/// The same batch with nothing left to wait for, and so without an event. Throws the failure of the work.
array::RecordBatch waited_for(const array::RecordBatch& batch);

/// The batch if it is in ordinary host memory; else a copy there. Either may be touched now.
array::RecordBatch on_host(const array::RecordBatch& batch);

}  // namespace crossdock::python
