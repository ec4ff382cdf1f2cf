#pragma once

#include <optional>
#include <span>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/copy.h"

/// Compute follows data (way 3 of the offloading text): a function runs where its arrays are. Uses no global state and
/// reads no byte of an array. Thread-safe.
namespace crossdock::offload {

/// Returns the queue that an array is associated with: the array's own queue, else the default queue of its device, or
/// a new queue in the memory's native context if that isn't the device's usual one. Returns nullopt for arrays in the
/// host's own memory: ordinary memory, or pinned memory without a queue. Throws as DriverRegistry::queue_in().
CROSSDOCK_EXPORT std::optional<device::Queue> queue_of(const array::Tensor& array,
                                                       const device::DriverRegistry& drivers);

/// Returns the queue of the first array that is associated with one; nullopt if all arrays are the host's. Throws as
/// queue_of().
CROSSDOCK_EXPORT std::optional<device::Queue> first_queue_of(std::span<const array::Tensor* const> arrays,
                                                             const device::DriverRegistry& drivers);

/// True if work on `queue` may access the array's memory without a copy: the memory belongs to the queue's device and
/// context, or they reach it. Throws as DriverRegistry::context().
CROSSDOCK_EXPORT bool accessible(const array::Tensor& array, const device::Queue& queue,
                                 const device::DriverRegistry& drivers);

/// Where a function is to run, and the kind of memory for its new arrays.
struct Placement {
  std::optional<device::Queue> queue;                   ///< Nullopt: all arrays are the host's; use the current queue.
  device::MemoryKind kind = device::MemoryKind::kHost;  ///< For new arrays: device before shared before host memory.
};

/// Finds where work on these arrays runs. Ignores host arrays.
///
/// Without `queue`, all other arrays must be associated with the same queue, which is the result. With `queue`, it must
/// reach all of them, and is the result. The queue is ordered after everything that is pending on the arrays: work put
/// on it from now on may access them. Waits, by `wait`, for work of another driver, and if all arrays are the host's.
/// Puts at most the order after an array's event on an in-order queue that is the array's own.
///
/// Throws ExecutionPlacementError, which names the first array that fits and the first that doesn't, by their positions
/// from 0, and says how to bring them together.
CROSSDOCK_EXPORT Placement placement(std::span<const array::Tensor* const> arrays,
                                     const std::optional<device::Queue>& queue, const device::DriverRegistry& drivers,
                                     const exchange::WaitFunction& wait = exchange::wait_in_driver);

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
