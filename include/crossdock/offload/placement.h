#pragma once

#include <optional>
#include <span>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// Compute follows data (way 3 of the offloading text): where a function runs is where its arrays are. No global state,
/// and no byte of an array is read; thread-safe.
namespace crossdock::offload {

/// The queue that an array is associated with: the one that it names, else its device's own. Nothing for arrays in the
/// host's own memory, ordinary or pinned without a queue. Throws as DriverRegistry::default_queue().
CROSSDOCK_EXPORT std::optional<device::Queue> queue_of(const array::Tensor& array,
                                                       const device::DriverRegistry& drivers);

/// That of the first array which is associated with one; nothing where all are the host's. Throws as queue_of().
CROSSDOCK_EXPORT std::optional<device::Queue> first_queue_of(std::span<const array::Tensor* const> arrays,
                                                             const device::DriverRegistry& drivers);

/// True if work on `queue` may use the array where it is: device and context are the queue's, or it reaches them.
/// Throws as DriverRegistry::context().
CROSSDOCK_EXPORT bool accessible(const array::Tensor& array, const device::Queue& queue,
                                 const device::DriverRegistry& drivers);

/// What a function is to do with its arrays.
struct Placement {
  std::optional<device::Queue> queue;                   ///< Nothing: all arrays are the host's; take the current queue.
  device::MemoryKind kind = device::MemoryKind::kHost;  ///< Of new arrays: device before shared before host memory.
};

/// Where work on these arrays runs. Host arrays are ignored. Without `queue`, the others must be associated with
/// one and the same queue, which is the answer; with it, it must reach all of them, and is the answer. Puts nothing on
/// any queue: whoever runs the work orders the queue after the arrays' events (exchange::order_on()).
///
/// Throws ExecutionPlacementError, which names the first array that fits and the first that doesn't, by their positions
/// from 0, and says how to bring them together.
CROSSDOCK_EXPORT Placement placement(std::span<const array::Tensor* const> arrays,
                                     const std::optional<device::Queue>& queue, const device::DriverRegistry& drivers);

}  // namespace crossdock::offload
