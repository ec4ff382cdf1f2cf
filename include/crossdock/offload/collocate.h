#pragma once

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/transfer.h"

namespace crossdock::offload {

/// The same memory for work on `queue`, which reaches it (accessible()): the queue is ordered after the array's event
/// and after what its own queue has to do now, and is the view's queue. Its mask too. Waits, by `wait`, where
/// the array's event is another driver's; and in the driver where this can't order the queue (Context::order_after()).
/// The host's own queue orders nothing and is no array's queue: for that the event is waited for, and the view is one
/// of host memory, on no queue. Throws what the contexts' verbs throw; then the queue may have been ordered.
CROSSDOCK_EXPORT array::Tensor associated(const array::Tensor& array, const device::Queue& queue,
                                          const device::DriverRegistry& drivers,
                                          const exchange::WaitFunction& wait = exchange::wait_in_driver);

/// The array where `queue` reaches it: associated() where it does, without a copy, else a copy that
/// exchange::transfer() makes on the queue. Throws as those.
CROSSDOCK_EXPORT array::Tensor collocate(const array::Tensor& array, const device::Queue& queue,
                                         const device::DriverRegistry& drivers,
                                         const exchange::WaitFunction& wait = exchange::wait_in_driver,
                                         const LogCallback& log = {});

}  // namespace crossdock::offload
