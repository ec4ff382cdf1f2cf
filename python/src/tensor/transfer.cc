#include "transfer.h"

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "../deferred.h"
#include "../gil.h"
#include "../offload/dpctl.h"
#include "../wait.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/dlpack.h"
#include "crossdock/exchange/sync.h"
#include "crossdock/session/runtime.h"
#include "sycl_objects.h"
#include "tensor.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::Tensor;
using device::Device;
using device::DeviceType;
using device::MemoryKind;
using device::Queue;

constexpr const char* kNoStream = "the C functions of a DLPack exporter don't report the stream of its work";

/// Reads the `stream` of a DLPack consumer (null: not given) as a number.
exchange::DLPackStream stream_number(PyObject* stream) {
  if (stream == nullptr) return std::nullopt;
  if (const auto number = whole_number(stream)) return number;
  if (!is_int(stream)) throw_type_error(stream, "stream must be an int or None");
  throw InvalidArgumentError("stream must be a handle of at most 64 bits");
}

}  // namespace

const device::DriverRegistry& drivers() {
  static std::atomic<const device::DriverRegistry*> known{nullptr};  // the default runtime keeps its drivers for good
  if (const auto* const all = known.load(std::memory_order_acquire)) [[likely]]
    return *all;
  std::optional<GilAcquire> lock;
  if (!holds_gil()) lock.emplace("looking for drivers");
  // Another thread may run while dpctl is searched for, and then searches, too.
  const auto& runtime = session::Runtime::default_runtime();
  runtime->set_driver_options(options_for_dpctl());
  known.store(runtime->drivers().get(), std::memory_order_release);
  return *runtime->drivers();
}

device::PointerInfo attributes_of(const Tensor& tensor) {
  if (tensor.data != nullptr) {
    return without_gil([&] { return drivers().context(tensor.device)->describe(tensor.data); });
  }
  // There is no pointer to ask about.
  device::PointerInfo info;
  info.device = tensor.device;
  info.kind = tensor.kind;
  info.host_accessible = tensor.host_accessible();
  info.managed = tensor.device.type == DeviceType::kCudaManaged;
  return info;
}

Tensor copy_for_dlpack(const Tensor& tensor, const Device& target, std::optional<MemoryKind> kind) {
  return or_export_error([&] { return copy_to(tensor, target, nullptr, kind); });
}

Tensor copy_to_queue(const Tensor& tensor, const Queue& queue, std::optional<MemoryKind> kind) {
  // The host's queue orders nothing: a copy to the host is complete when this returns.
  return copy_to(tensor, queue.device(), queue.device() == Device{} ? nullptr : &queue, kind);
}

Tensor copy_into(const Tensor& to, const Tensor& from, const Queue* queue) {
  const GilRelease release;
  return exchange::transfer_into(to, from, queue, drivers(), wait_for_event, log_here);
}

void require_queue_of(const Queue& queue, const Device& device) {
  if (queue.device() == drivers().for_type(device.type)->owning_device(device)) return;
  throw InvalidArgumentError("the queue is one of " + device::to_string(queue.device()) + ", but the memory is on " +
                             device::to_string(device));
}

Tensor empty_on(const array::ElementType& type, std::span<const std::int64_t> shape, const Device& device,
                const Queue* queue, std::optional<MemoryKind> kind) {
  const GilReleaseIfHeld release;  // this may open the device, and free memory on the deferred-free list
  const Queue on = queue != nullptr ? *queue : drivers().default_queue(device);
  require_queue_of(on, device);
  Tensor made = exchange::empty(type, shape, drivers().context(on), kind.value_or(device::kind_of(device.type)), on);
  if (made.data == nullptr) made.device = device;
  return made;
}

ConsumerStream consumer_stream(const Device& device, PyObject* stream) {
  if (device.type == DeviceType::kOneApi && stream != nullptr && PyIndex_Check(stream) == 0) {
    auto queue = sycl_queue_in(stream, nullptr);
    if (!queue) throw InvalidArgumentError("stream must be a SYCL queue (of dpctl, or crossdock.Queue), -1 or None");
    return {device, {}, std::move(queue)};
  }
  const exchange::DLPackStream number = stream_number(stream);
  exchange::check_dlpack_stream(device, number);
  return {device, number, {}};
}

void order_for_dlpack(const Tensor& tensor, const ConsumerStream& stream) {
  // Releases the GIL: on an out-of-order SYCL queue the call waits for the event, and the work before may need the GIL.
  const GilRelease release;
  if (stream.queue) {
    exchange::order_on(tensor, *stream.queue, drivers(), wait_for_event);
  } else {
    exchange::order_for_dlpack(tensor, stream.device, stream.number, drivers(), wait_for_event);
  }
}

RequestedStream stream_for_dlpack(const Device& device) {
  if (device::host_readable(device.type)) return {nb::none()};
  std::optional<Queue> queue = without_gil([&] {
    return drivers().context_or_null(device) != nullptr ? std::optional(drivers().default_queue(device)) : std::nullopt;
  });
  if (!queue || queue->native() == nullptr) return {nb::none()};
  if (device.type == DeviceType::kOneApi) {
    // A producer that understands SYCL queues has imported dpctl. No stream is passed to others.
    const nb::object dpctl = nb::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), "dpctl"));
    if (!dpctl.is_valid()) return {nb::none()};
    nb::object theirs = dpctl.attr("SyclQueue")(sycl_queue_capsule(*queue));
    return {std::move(theirs), std::move(queue)};
  }
  nb::object number = checked(PyLong_FromVoidPtr(queue->native()));
  return {std::move(number), std::move(queue)};
}

void note_requested_stream(Tensor* tensor, const std::optional<Device>& source, const RequestedStream& requested) {
  if (tensor->device == Device{}) return;
  const GilRelease release;  // the call may record an event: see pending_without_lock()
  exchange::note_dlpack_stream(tensor, source, requested.queue, drivers());
}

void note_stream(const DLPackExchangeAPI& api, Tensor* tensor) {
  const auto device = without_gil([&] { return exchange::device_of_producer_stream(*tensor, drivers()); });
  if (!device) return;
  void* native = nullptr;
  const auto type = static_cast<DLDeviceType>(device->type);
  if (api.current_work_stream == nullptr) throw ExportError(kNoStream);
  if (api.current_work_stream(type, static_cast<int32_t>(device->id), &native) != 0) {
    if (PyErr_Occurred() == nullptr) throw ExportError(kNoStream);
    throw nb::python_error();
  }
  const GilRelease release;
  exchange::note_producer_stream(tensor, device::NativeQueue(native), drivers());
}

}  // namespace crossdock::python
