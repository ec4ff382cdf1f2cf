#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string_view>

#include "crossdock/array/dlpack_abi.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/log.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// Operations on tensors that need a driver: copies, and the ordering between queues that protocols demand. They use
/// the drivers of the default session::Runtime, which are searched for at the first call that needs one. They need the
/// GIL, unless a comment says otherwise, and release it while they wait or copy. They throw.
namespace crossdock::python {

/// Returns the drivers that all functions here use. The first call needs the GIL, because it looks for the Python
/// package dpctl.
const device::DriverRegistry& drivers();
/// Returns the same drivers, if drivers() was called before. Doesn't need the GIL.
const device::DriverRegistry& drivers_started();

/// Writes a line to the Python logger. Takes the GIL; call it without holding it.
void say(LogLevel level, std::string_view text);
/// Calls exchange::transfer(). Ctrl-C interrupts its waits.
array::Tensor copy_to(const array::Tensor& tensor, const device::Device& target, const device::Queue* queue,
                      std::optional<device::MemoryKind> kind = {});
/// Calls copy_to() for the Python array API standard, which wants a BufferError for a device that isn't there: throws
/// ExportError in place of UnsupportedError and NotFoundError.
array::Tensor copy_for_dlpack(const array::Tensor& tensor, const device::Device& target,
                              std::optional<device::MemoryKind> kind = {});
/// Copies a tensor to the device of `queue`, for work on that queue, which may be the host's.
array::Tensor copy_to_queue(const array::Tensor& tensor, const device::Queue& queue,
                            std::optional<device::MemoryKind> kind = {});
/// Calls exchange::transfer_into(). Ctrl-C interrupts its waits.
array::Tensor copy_into(const array::Tensor& to, const array::Tensor& from, const device::Queue* queue);
/// Calls exchange::on_host(). Ctrl-C interrupts its waits.
array::Tensor on_host(const array::Tensor& tensor);

/// Throws InvalidArgumentError if the queue can't order work on memory of the device.
void require_queue_of(const device::Queue& queue, const device::Device& device);
/// Allocates memory of a device, not zeroed, for work on `queue`, or on the device's default queue if null. Throws
/// InvalidArgumentError if the queue is one of another device. May be called without the GIL once drivers() was called.
array::Tensor empty_on(const array::ElementType& type, std::span<const std::int64_t> shape,
                       const device::Device& device, const device::Queue* queue,
                       std::optional<device::MemoryKind> kind = {});

/// Returns the information that the tensor's driver has about its pointer.
device::PointerInfo attributes_of(const array::Tensor& tensor);

/// Waits until the work on the memory of the tensor and of its mask is over. Doesn't change the tensor.
void wait_for(const array::Tensor& tensor);
/// Waits as wait_for(). Returns a view without event and queue.
array::Tensor waited_for(array::Tensor tensor);

/// Calls exchange::order_for_dlpack() with the Python argument `stream` (null: not given). Ctrl-C interrupts its waits.
/// Throws Python's TypeError if `stream` is no stream.
void order_for_dlpack(const array::Tensor& tensor, const device::Device& of, PyObject* stream);
/// Calls exchange::check_dlpack_stream() with the Python argument `stream`. Throws TypeError likewise.
void check_stream(const device::Device& device, PyObject* stream);
/// The consumer's stream, which a DLPack producer is asked to order after its work.
struct RequestedStream {
  nanobind::object argument;             ///< The argument `stream`. None: no stream is named.
  std::optional<device::Queue> queue{};  ///< Our queue for that stream.
};
/// Returns the stream to pass to a producer on `device`: our default queue there, or none.
RequestedStream stream_for_dlpack(const device::Device& device);
/// Calls exchange::note_dlpack_stream() after a producer was asked with `requested`.
void note_requested_stream(array::Tensor* tensor, const std::optional<device::Device>& source,
                           const RequestedStream& requested);
/// For a tensor from a producer that used the C exchange API and put its work on our default_stream(): sets the
/// tensor's queue and event accordingly.
void note_default_queue(array::Tensor* tensor);

/// Throws ExportError for memory in another native context than the usual one of its device, for example memory of a
/// SYCL sub-device. A device in `protocol` ("DLPack", "Arrow") stands for its usual context.
void refuse_other_context(const array::Tensor& tensor, const char* protocol);

// The C exchange API orders nothing by itself: producer and consumer put their work on current streams.

/// As producer: calls exchange::order_on_work_stream(). May be called without the GIL once drivers() was called.
void order_on_default_queue(const array::Tensor& tensor);
/// Returns our current_work_stream() of a device, see exchange::work_stream().
void* default_stream(const device::Device& device);
/// As consumer: asks the producer's `api` for its current stream and calls exchange::note_producer_stream(). Throws
/// ExportError if the API can't tell the stream.
void note_stream(const DLPackExchangeAPI& api, array::Tensor* tensor);

}  // namespace crossdock::python
