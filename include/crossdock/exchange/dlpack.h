#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/dlpack_abi.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/copy.h"

/// DLPack, versions 0.x (legacy) to 1.3.
///
/// DLPack carries no event: the producer orders the consumer's queue after its work. An imported tensor therefore
/// counts as ready, because the caller has ordered its queue as the protocol says. A tensor must be ready before
/// export: see sync.h.
namespace crossdock::exchange {

/// Returns a view of memory that another library owns; keeps nothing alive. Strides may be null (C order). `flags` are
/// those of DLManagedTensorVersioned. Reads no element, neither in host memory nor on a device. Throws InvalidDataError
/// for invalid extents or pointers, UnsupportedTypeError for packed elements smaller than a byte.
CROSSDOCK_EXPORT array::Tensor view_dlpack(const DLTensor& tensor, std::uint64_t flags);
/// Returns the element type that `dtype` describes. `flags` and errors are as in view_dlpack().
CROSSDOCK_EXPORT array::ElementType element_type_of(const DLDataType& dtype, std::uint64_t flags);
/// Fills `*out`. `shape` and `strides` have room for `tensor.ndim()` numbers each; they may be null if there are no
/// dimensions. `out->data` is the lowest address of all elements, and `byte_offset` the distance from there to the
/// first element, which isn't 0 if strides are negative. The tensor must have passed check_dlpack().
CROSSDOCK_EXPORT void describe_dlpack(const array::Tensor& tensor, std::int64_t* shape, std::int64_t* strides,
                                      DLTensor* out) noexcept;

/// Takes ownership of `*managed`. On success the tensor's owner calls the deleter, on the thread that drops the last
/// owner. On a throw the caller still owns it. Throws as view_dlpack(), InvalidArgumentError for a null struct, and
/// UnsupportedTypeError for a major version other than 1.
CROSSDOCK_EXPORT array::Tensor import_dlpack(DLManagedTensorVersioned* managed);
/// The same for the legacy struct. It can't say that memory is read-only, so the tensor is writable.
CROSSDOCK_EXPORT array::Tensor import_dlpack(DLManagedTensor* managed);

/// Checks that DLPack can describe the tensor.
///
/// Throws ExportError for elements that are byte-swapped or described (structured, text, dates), for strides that
/// aren't a multiple of the element size, for device ids beyond 31 bits, and with `legacy` for read-only memory. The
/// text of the error names the cause and says what to do. Throws UnsupportedError if the tensor has a mask.
CROSSDOCK_EXPORT void check_dlpack(const array::Tensor& tensor, bool legacy);

/// Returns the device as DLPack numbers it: the CPU, pinned and managed memory are device 0, whatever id they had.
CROSSDOCK_EXPORT device::Device dlpack_device(const device::Device& device) noexcept;

/// Says whether the caller has ordered the consumer after what is pending on a tensor (order_for_dlpack(),
/// order_on_work_stream()), since DLPack carries no event.
enum class Order : std::uint8_t {
  kNone,  ///< Nothing may be pending. The export throws InvalidArgumentError otherwise: order it, or wait_ready().
  kMade,  ///< The caller has ordered the consumer, or the consumer asked for no order.
};

/// Exports a view of the tensor. The memory lives until the deleter is called, once, on any thread.
///
/// Makes one allocation, whatever the number of dimensions. Sets the flags read-only and padded as the tensor says, and
/// `copied` if the caller made this memory for the hand-over and shares it with no other holder. The version is 1.3.
/// Strides are null only if there are no dimensions, and the pointer is null if there are no elements. Throws as
/// check_dlpack().
CROSSDOCK_EXPORT DLManagedTensorVersioned* export_dlpack(const array::Tensor& tensor, Order order = Order::kNone,
                                                         bool copied = false);
/// Exports without a version, which can't say read-only and padded: throws ExportError for such tensors, too.
CROSSDOCK_EXPORT DLManagedTensor* export_dlpack_legacy(const array::Tensor& tensor, Order order = Order::kNone);

// Order between the streams of producer and consumer. DLPack itself leaves it to two other interfaces: the argument
// `stream` of `__dlpack__` (the Python array API standard, which defines its numbers) and `current_work_stream` of the
// C exchange API (DLPack 1.3).
//
// An imported tensor gets its queue here. A stream whose device has no driver here is out of reach
// (device::Memory::out_of_reach()): it can be passed on, but not be waited for.

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

/// For a producer: orders the consumer's stream after what is pending on the tensor. Export it with Order::kMade then.
///
/// `of` is the device of the tensor that the consumer asked for; `tensor` may be a copy of it on another device.
/// `stream` is a stream of `of`. For pinned and managed memory, which DLPack gives no device number, it may be a stream
/// of any device.
///
/// Waits, by `wait`, for memory that the host reads: host memory, and memory that the host can access if the consumer
/// names no stream. Also waits if the work can't be ordered in another way. With kDLPackNoOrder it orders nothing and
/// waits only for host memory.
///
/// Throws InvalidArgumentError for a stream that the interface of `of` doesn't have or that no driver here knows.
/// Throws ExportError if the tensor's work is on a stream out of reach and the consumer names another stream. For a
/// consumer that names a queue, as SYCL's do, call order_on().
CROSSDOCK_EXPORT void order_for_dlpack(const array::Tensor& tensor, const device::Device& of, DLPackStream stream,
                                       const device::DriverRegistry& drivers,
                                       const WaitFunction& wait = wait_in_driver);
/// For a consumer, after an import: sets the tensor's queue. `source` is the producer's device, or nullopt if
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
/// For a producer: orders work_stream() of the tensor's device, on which the consumer continues, after what is pending
/// on the tensor. Waits instead if the host can read the memory by its type (pinned memory).
CROSSDOCK_EXPORT void order_on_work_stream(const array::Tensor& tensor, const device::DriverRegistry& drivers,
                                           const WaitFunction& wait = wait_in_driver);
/// Sets the queue of a tensor that was imported with its work on work_stream() of its device.
CROSSDOCK_EXPORT void note_work_stream(array::Tensor* tensor, const device::DriverRegistry& drivers);

/// For a consumer: returns the device whose current_work_stream() the producer has used; nullopt if it doesn't matter.
CROSSDOCK_EXPORT std::optional<device::Device> device_of_producer_stream(const array::Tensor& tensor,
                                                                         const device::DriverRegistry& drivers);
/// For a consumer: sets the queue from `native`, the answer of the producer's current_work_stream(). Null is the
/// default stream of that device.
CROSSDOCK_EXPORT void note_producer_stream(array::Tensor* tensor, device::NativeQueue native,
                                           const device::DriverRegistry& drivers);

}  // namespace crossdock::exchange
