#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/transfer.h"

/// Order between the streams of producer and consumer. DLPack itself leaves it to two other interfaces: the argument
/// `stream` of `__dlpack__` (the Python array API standard, which defines its numbers) and `current_work_stream` of the
/// C exchange API (DLPack 1.3).
///
/// An exported tensor has no event any more (dlpack.h); an imported one gets its event here. A stream whose device has
/// no driver here is kept as described for streams out of reach in sync.h.
namespace crossdock::exchange {

/// `stream` of `__dlpack__` as a number; nullopt for None, which means the default stream if the interface has one.
using DLPackStream = std::optional<std::int64_t>;

/// The value of `stream` with which the consumer asks for no order.
inline constexpr std::int64_t kDLPackNoOrder = -1;

/// Checks that memory of this device can have such a stream. Throws InvalidArgumentError:
/// - for host memory, for everything but None and -1;
/// - for CUDA, for 0, which is ambiguous (1 is the legacy default stream, 2 the per-thread one);
/// - for ROCm, for 1 and 2 (the default stream is 0);
/// - for oneAPI, for all numbers but -1, because its queues are objects;
/// - for every device, for numbers below -1.
CROSSDOCK_EXPORT void check_dlpack_stream(const device::Device& device, DLPackStream stream);

// __dlpack__

/// For a producer: orders the consumer's stream after the tensor's event, then clears the event.
///
/// `of` is the device of the tensor that the consumer asked for; `*tensor` may be a copy of it on another device.
/// `stream` is a stream of `of`. For pinned and managed memory, which DLPack gives no device number, it may be a stream
/// of any device.
///
/// Waits, by `wait`, for memory that the host reads: host memory, and memory that the host can access if the consumer
/// names no stream. Also waits if the work can't be ordered in another way. With kDLPackNoOrder it orders nothing and
/// waits only for host memory.
///
/// Throws InvalidArgumentError for a stream that the interface of `of` doesn't have or that no driver here knows.
/// Throws ExportError if the tensor's work is on a stream out of reach and the consumer names another stream.
CROSSDOCK_EXPORT void order_for_dlpack(array::Tensor* tensor, const device::Device& of, DLPackStream stream,
                                       const device::DriverRegistry& drivers,
                                       const WaitFunction& wait = wait_in_driver);
/// The same for a consumer that names a queue, as SYCL consumers do.
CROSSDOCK_EXPORT void order_for_dlpack(array::Tensor* tensor, const device::Queue& queue,
                                       const device::DriverRegistry& drivers,
                                       const WaitFunction& wait = wait_in_driver);

/// For a consumer, after an import: sets the tensor's event and queue. `source` is the producer's device, or nullopt if
/// the producer didn't say. `asked` is the queue that the producer was given as `stream`. Work on that queue may access
/// the memory at once, and other queues are ordered after it. If `asked` is nullopt, the producer has used the default
/// stream, if its interface has one.
CROSSDOCK_EXPORT void note_dlpack_stream(array::Tensor* tensor, const std::optional<device::Device>& source,
                                         const std::optional<device::Queue>& asked,
                                         const device::DriverRegistry& drivers);

// The C exchange API: it orders nothing, because both sides put their work on current streams

/// Returns the answer to current_work_stream(): the device's default queue; null if it has none, or if it has no driver
/// here.
CROSSDOCK_EXPORT void* work_stream(const device::Device& device, const device::DriverRegistry& drivers);
/// For a producer: orders work_stream() of the tensor's device, on which the consumer continues, after the tensor's
/// event, then clears the event. Waits instead if the host can read the memory by its type (pinned memory).
CROSSDOCK_EXPORT void order_on_work_stream(array::Tensor* tensor, const device::DriverRegistry& drivers,
                                           const WaitFunction& wait = wait_in_driver);
/// Sets event and queue of a tensor that was imported with its work on work_stream() of its device.
CROSSDOCK_EXPORT void note_work_stream(array::Tensor* tensor, const device::DriverRegistry& drivers);

/// For a consumer: returns the device whose current_work_stream() the producer has used; nullopt if it doesn't matter.
CROSSDOCK_EXPORT std::optional<device::Device> device_of_their_stream(const array::Tensor& tensor,
                                                                      const device::DriverRegistry& drivers);
/// For a consumer: sets event and queue from `native`, the answer of the producer's current_work_stream(). Null is the
/// default stream of that device.
CROSSDOCK_EXPORT void note_their_stream(array::Tensor* tensor, void* native, const device::DriverRegistry& drivers);

}  // namespace crossdock::exchange
