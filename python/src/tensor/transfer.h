#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>

#include "../batch.h"
#include "crossdock/array/dlpack_abi.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/error.h"
#include "crossdock/core/log.h"
#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/dlpack.h"

/// Operations on tensors that need a driver: copies for protocols, and the ordering between queues that they demand.
/// They use the drivers of the default session::Runtime, which are searched for at the first call that needs one. They
/// need the GIL, unless a comment says otherwise, and release it while they wait or copy. They throw.
namespace crossdock::python {

/// Returns the drivers that all functions here use. Callable with or without the GIL. The first call takes the GIL,
/// because it looks for the Python package dpctl. Call it before data is handed to threads of the library: they use the
/// drivers of the same Runtime, and would start them without dpctl.
const device::DriverRegistry& drivers();

/// Does so now, if a call of the library may need drivers for this memory. Costs nothing for memory of the host.
inline void find_drivers_for(const device::Memory& memory) {
  if (memory.device != device::Device{} || memory.queue) drivers();
}

/// Returns `call()`. Throws ExportError in place of its UnsupportedError and NotFoundError, which say that a device
/// isn't there. `why` begins its text.
template <class Call>
auto or_export_error(Call&& call, const char* why = "") {
  try {
    return call();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kNotFound) throw;
    throw ExportError(why + std::string(error.what()));
  }
}

/// Calls copy_to() for the Python array API standard, which wants a BufferError for a device that isn't there: throws
/// ExportError in place of UnsupportedError and NotFoundError.
array::Tensor copy_for_dlpack(const array::Tensor& tensor, const device::Device& target,
                              std::optional<device::MemoryKind> kind = {});
/// Copies a tensor to the device of `queue`, for work on that queue, which may be the host's.
array::Tensor copy_to_queue(const array::Tensor& tensor, const device::Queue& queue,
                            std::optional<device::MemoryKind> kind = {});
/// Calls exchange::transfer_into(). Ctrl-C interrupts its waits.
array::Tensor copy_into(const array::Tensor& to, const array::Tensor& from, const device::Queue* queue);

/// Throws InvalidArgumentError if the queue can't order work on memory of the device.
void require_queue_of(const device::Queue& queue, const device::Device& device);
/// Allocates memory of a device, not zeroed, for work on `queue`, or on the device's default queue if null. Throws
/// InvalidArgumentError if the queue is one of another device. May be called without the GIL.
array::Tensor empty_on(const array::ElementType& type, std::span<const std::int64_t> shape,
                       const device::Device& device, const device::Queue* queue,
                       std::optional<device::MemoryKind> kind = {});

/// Returns the information that the tensor's driver has about its pointer.
device::PointerInfo attributes_of(const array::Tensor& tensor);

/// The stream that a DLPack consumer names: a SYCL queue object (of dpctl or Crossdock), or else a number.
struct ConsumerStream {
  device::Device device;
  exchange::DLPackStream number;
  std::optional<device::Queue> queue;
};
/// Reads and checks the Python argument `stream` (null: not given), a stream of `device`. Uses up a capsule. Throws
/// Python's TypeError if `stream` is no stream, and as exchange::check_dlpack_stream().
ConsumerStream consumer_stream(const device::Device& device, PyObject* stream);
/// Calls exchange::order_for_dlpack(), or order_on() for a SYCL queue. Ctrl-C interrupts its waits.
void order_for_dlpack(const array::Tensor& tensor, const ConsumerStream& stream);
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

/// For a tensor from the C exchange API, which orders nothing: asks the producer's `api` for its current stream and
/// calls exchange::note_producer_stream(). Throws ExportError if the API can't tell the stream.
void note_stream(const DLPackExchangeAPI& api, array::Tensor* tensor);

}  // namespace crossdock::python
