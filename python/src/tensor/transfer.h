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

/// Where tensors meet drivers: copies, and the order between queues that protocols ask for. All with the drivers of the
/// default session context, which are looked for at the first call that needs one. Needs the interpreter lock, and lets
/// go of it where it waits or copies. Throws.
namespace crossdock::python {

/// The drivers that everything here uses. The first call needs the lock: it looks where Python has put dpctl.
const device::DriverRegistry& drivers();
/// The same, where drivers() was called before; without the interpreter lock.
const device::DriverRegistry& drivers_started();

/// To the Python logger. Without the lock.
void say(LogLevel level, std::string_view text);
/// exchange::transfer(), with Ctrl-C answered where it waits.
array::Tensor copy_to(const array::Tensor& tensor, const device::Device& target, const device::Queue* queue,
                      std::optional<device::MemoryKind> kind = {});
/// A copy for work on `queue`, which may be the host's.
array::Tensor copy_to_queue(const array::Tensor& tensor, const device::Queue& queue,
                            std::optional<device::MemoryKind> kind = {});
/// exchange::transfer_into(), likewise.
array::Tensor copy_into(const array::Tensor& to, const array::Tensor& from, const device::Queue* queue);
/// New memory of this device, not zeroed, for work on `queue`, or on the device's default one.
array::Tensor empty_on(const array::ElementType& type, std::span<const std::int64_t> shape,
                       const device::Device& device, const device::Queue* queue,
                       std::optional<device::MemoryKind> kind = {});

/// What its driver knows of the tensor's pointer.
device::PointerInfo attributes_of(const array::Tensor& tensor);

/// Waits until the tensor's memory, and its mask's, may be touched; leaves the tensor as it is.
void wait_for(const array::Tensor& tensor);
/// The same, and then a view without event and queue.
array::Tensor waited_for(array::Tensor tensor);

/// exchange::order_for_dlpack() with what Python gives as `stream` (null: not given), with Ctrl-C answered where it
/// waits. Throws Python's TypeError for what is no stream.
void order_for_dlpack(array::Tensor* tensor, const device::Device& of, PyObject* stream);
/// exchange::check_dlpack_stream(), likewise.
void check_stream(const device::Device& device, PyObject* stream);
/// What a DLPack producer is asked to order after its work.
struct RequestedStream {
  nanobind::object argument;             ///< `stream`; None: not named.
  std::optional<device::Queue> queue{};  ///< Which one that is of ours.
};
/// Of a producer on this device: our queue there, or none.
RequestedStream stream_for_dlpack(const device::Device& device);
/// exchange::note_dlpack_stream(), after a producer was asked so.
void note_requested_stream(array::Tensor* tensor, const std::optional<device::Device>& source, const RequestedStream& requested);
/// After a producer by the C exchange API put its work on our default_stream().
void note_default_queue(array::Tensor* tensor);

/// For the C exchange API, which orders nothing by itself: both sides put their work on current streams.
void order_on_default_queue(array::Tensor* tensor);
void* default_stream(const device::Device& device);
void note_stream(const DLPackExchangeAPI& api, array::Tensor* tensor);

}  // namespace crossdock::python
