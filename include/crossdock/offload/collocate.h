#pragma once

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/transfer.h"

namespace crossdock::offload {

/// Returns a view of the same memory, and mask, for work on `queue`. `queue` must reach the memory (accessible()).
///
/// Orders `queue` after the array's event and after the work that is on the array's own queue now; `queue` becomes the
/// view's queue. Waits, by `wait`, if the array's event belongs to another driver. Waits in the driver if the driver
/// can't order the queue (Context::order_after()). The host's own queue orders nothing and is never an array's queue:
/// for that queue, waits for the event and returns a view of host memory without a queue.
///
/// Throws the errors of the contexts' functions; `queue` may then have been ordered already.
CROSSDOCK_EXPORT array::Tensor associated(const array::Tensor& array, const device::Queue& queue,
                                          const device::DriverRegistry& drivers,
                                          const exchange::WaitFunction& wait = exchange::wait_in_driver);

/// Returns the array in a place that `queue` reaches: by associated(), without a copy, if `queue` reaches it already;
/// else by a copy that exchange::transfer() makes on the queue. Throws as those functions.
CROSSDOCK_EXPORT array::Tensor collocate(const array::Tensor& array, const device::Queue& queue,
                                         const device::DriverRegistry& drivers,
                                         const exchange::WaitFunction& wait = exchange::wait_in_driver,
                                         const LogCallback& log = {});

}  // namespace crossdock::offload
