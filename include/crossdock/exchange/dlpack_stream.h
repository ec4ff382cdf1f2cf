#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/transfer.h"

/// The order between the streams of producer and consumer, which DLPack leaves to the two: `stream` of `__dlpack__`
/// (the Python array API standard, from which its numbers are) and `current_work_stream` of the C exchange API
/// (DLPack 1.3). What a consumer was handed has no event any more (dlpack.h); what comes in gets one here. A stream
/// whose driver isn't here is carried as sync.h says of streams out of reach.
namespace crossdock::exchange {

/// `stream` of `__dlpack__` as a number; nothing for None, which is the default stream where the interface has one.
using DLPackStream = std::optional<std::int64_t>;

/// The consumer asks for no order.
inline constexpr std::int64_t kDLPackNoOrder = -1;

/// Throws InvalidArgumentError for a stream that memory of this device hasn't. Host memory: None and -1 only. CUDA: 0,
/// which is ambiguous (1 is the legacy default stream, 2 the per-thread one). ROCm: 1 and 2 (the default one is 0).
/// oneAPI: all numbers but -1, as its queues are objects. Everywhere what is below -1.
CROSSDOCK_EXPORT void check_dlpack_stream(const device::Device& device, DLPackStream stream);

// __dlpack__

/// As producer: the consumer's stream is ordered after the tensor's event, which is gone then. The stream is one of
/// `of`, the device of the tensor that was asked, of which `*tensor` may be a copy elsewhere; of pinned and managed
/// memory, which has no device's number in DLPack, any device's. What the host reads is waited for by `wait`, where it
/// is the host's or no stream is named; and so is what can't be ordered otherwise. With kDLPackNoOrder nothing is
/// ordered, and nothing is waited for but what the host reads. Throws InvalidArgumentError for a stream that the
/// interface of `of` hasn't or that nobody here knows, ExportError where the tensor's work is on a stream out of reach
/// and the consumer names another.
CROSSDOCK_EXPORT void order_for_dlpack(array::Tensor* tensor, const device::Device& of, DLPackStream stream,
                                       const device::DriverRegistry& drivers, const WaitFunction& wait = wait_in_driver);
/// The same for a consumer that names a queue, as SYCL's do.
CROSSDOCK_EXPORT void order_for_dlpack(array::Tensor* tensor, const device::Queue& queue,
                                       const device::DriverRegistry& drivers, const WaitFunction& wait = wait_in_driver);

/// As consumer, after a producer on `source` (nothing: it didn't say) was given `asked` as its stream: work on that
/// queue may touch the memory, and other queues come after it. Who was given none has used the default stream, where
/// its interface has such a thing.
CROSSDOCK_EXPORT void note_dlpack_stream(array::Tensor* tensor, const std::optional<device::Device>& source,
                                         const std::optional<device::Queue>& asked,
                                         const device::DriverRegistry& drivers);

// The C exchange API, by which nobody orders anything: both sides put their work on current streams

/// Our answer to current_work_stream(): the device's default queue; null where there is none, or no driver.
CROSSDOCK_EXPORT void* work_stream(const device::Device& device, const device::DriverRegistry& drivers);
/// As producer: our work stream of the tensor's device, on which the consumer goes on, is ordered after the tensor's
/// event, which is gone then. What the host reads by its type (pinned memory) is waited for.
CROSSDOCK_EXPORT void order_on_work_stream(array::Tensor* tensor, const device::DriverRegistry& drivers,
                                           const WaitFunction& wait = wait_in_driver);
/// After somebody gave us a tensor whose work is on our work stream.
CROSSDOCK_EXPORT void note_work_stream(array::Tensor* tensor, const device::DriverRegistry& drivers);

/// As consumer: the device whose current_work_stream() the producer has used; nothing where it doesn't matter.
CROSSDOCK_EXPORT std::optional<device::Device> device_of_their_stream(const array::Tensor& tensor,
                                                                      const device::DriverRegistry& drivers);
/// And what it answered: null is that device's default stream.
CROSSDOCK_EXPORT void note_their_stream(array::Tensor* tensor, void* native, const device::DriverRegistry& drivers);

}  // namespace crossdock::exchange
