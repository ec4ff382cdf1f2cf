#pragma once

#include <optional>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/tensor.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"

/// Copies and waits. `Array` is array::Tensor or array::RecordBatch. The functions use drivers() (tensor/transfer.h).
/// They may be called with or without the GIL, and release it while they wait or copy. Ctrl-C interrupts their waits.
/// They throw the errors of the drivers.
namespace crossdock::python {

/// Calls exchange::transfer(): copies to memory of `target`. The copy runs on `queue`, or, if that is null, on the
/// default queue of the copy executor's device. With `queue`, the copy may still run when this returns; the result's
/// event is its end. Without one, a copy from or to the host is complete when this returns. Throws
/// InvalidArgumentError for a queue of another device.
template <class Array>
Array copy_to(Array from, const device::Device& target, const device::Queue* queue,
              std::optional<device::MemoryKind> kind = {});

/// Orders the queue after what is pending on the batch. Waits for work of another driver.
void order_on(const array::RecordBatch& batch, const device::Queue& queue);

/// Waits until the work on the memory, and on a tensor's mask, is over. Doesn't change `array`.
template <class Array>
void wait_for(const Array& array);

/// Returns the data in ordinary host memory. Shares memory that the host can access, copies other memory. Waits, so
/// the result is ready.
template <class Array>
Array on_host(Array array);

}  // namespace crossdock::python
