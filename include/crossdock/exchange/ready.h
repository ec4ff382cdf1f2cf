#pragma once

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

/// What becomes of a tensor's event where a protocol can't carry it.
namespace crossdock::exchange {

/// True if nothing has to be waited for. Throws the failure of the work, if it is known.
CROSSDOCK_EXPORT bool is_ready(const array::Tensor& tensor);

/// For a tensor whose work is on a stream of `device` that nobody here knows of, as no driver was found for it: an
/// event that can't be waited for. Whoever asks about it gets ExportError thrown; the tensor's queue says which stream
/// it is, for protocols that can hand that on.
CROSSDOCK_EXPORT device::Event out_of_reach(const device::Queue& stream);
/// True if the tensor's work is on such a stream, its queue.
CROSSDOCK_EXPORT bool is_out_of_reach(const array::Tensor& tensor) noexcept;

/// The queue that the tensor is on, which may own what the memory needs, is kept by its owner from now on. Each queue
/// once, however often a tensor goes from one to another and back.
CROSSDOCK_EXPORT void keep_queue(array::Tensor* tensor);

/// Work put on `queue` from now on may touch the memory: the queue is ordered after the tensor's event, which is gone
/// then. Waits for nothing. Throws the failure that the event carries.
CROSSDOCK_EXPORT void order_on(array::Tensor* tensor, device::Context& context, const device::Queue& queue);

/// Waits, in the calling thread, until anybody may touch the memory. Throws the failure of the work.
CROSSDOCK_EXPORT void wait_ready(array::Tensor* tensor, device::Context& context);

}  // namespace crossdock::exchange
