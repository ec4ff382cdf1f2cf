#pragma once

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

/// Synchronisation of tensors and batches: for protocols that can't carry a tensor's event.
namespace crossdock::exchange {

/// Returns true if no work before `event`, the one of a tensor or a batch, is pending. Throws the error of failed work,
/// if it is known. Doesn't ask the driver.
CROSSDOCK_EXPORT bool is_ready(const device::Event& event);

/// Makes an event that can't be waited for, for work on a stream whose device has no driver here. Waiting for it or
/// querying it throws ExportError. The tensor's queue holds the stream, for protocols that can pass it on.
CROSSDOCK_EXPORT device::Event out_of_reach(const device::Queue& stream);
/// True if the tensor has such an event.
CROSSDOCK_EXPORT bool is_out_of_reach(const array::Tensor& tensor) noexcept;

/// Makes the tensor's owner keep the tensor's queue, which may own resources that the memory needs. Keeps each queue
/// once.
CROSSDOCK_EXPORT void keep_queue(array::Tensor* tensor);

/// Orders `queue` after the tensor's event and clears the event: work put on `queue` from now on may access the memory.
/// Doesn't block. Throws the error of an event that failed.
CROSSDOCK_EXPORT void order_on(array::Tensor* tensor, device::Context& context, const device::Queue& queue);

/// Blocks the calling thread until the work on the memory is over. Throws its error if it failed.
CROSSDOCK_EXPORT void wait_ready(array::Tensor* tensor, device::Context& context);

}  // namespace crossdock::exchange
