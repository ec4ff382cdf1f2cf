#include "transfer.h"

#include <atomic>
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
#include "crossdock/offload/placement.h"
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

/// Reads a SYCL stream, which is a queue object of dpctl or Crossdock, not a number. Returns nullopt for numbers and
/// null, and for other devices.
std::optional<Queue> sycl_stream(const Device& device, PyObject* stream) {
  if (device.type != DeviceType::kOneApi || stream == nullptr || PyIndex_Check(stream) != 0) return std::nullopt;
  auto queue = sycl_queue_in(stream, nullptr);
  if (!queue) throw InvalidArgumentError("stream must be a SYCL queue (of dpctl, or crossdock.Queue), -1 or None");
  return queue;
}

/// Reads the `stream` of a DLPack consumer (null: not given) as a number.
exchange::DLPackStream stream_number(PyObject* stream) {
  if (stream == nullptr) return std::nullopt;
  if (PyIndex_Check(stream) == 0 || PyBool_Check(stream) != 0) {
    PyErr_Format(PyExc_TypeError, "stream must be an int or None, not %s", Py_TYPE(stream)->tp_name);
    throw nb::python_error();
  }
  const nb::object integer = checked(PyNumber_Index(stream));
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  if (overflow != 0) throw InvalidArgumentError("stream must be a handle of at most 64 bits");
  if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return number;
}

}  // namespace

const device::DriverRegistry& drivers() {
  static std::atomic<const device::DriverRegistry*> known{nullptr};  // the default runtime keeps its drivers for good
  if (const auto* const all = known.load(std::memory_order_acquire)) [[likely]]
    return *all;
  if (!holds_gil()) return drivers_started();
  // Another thread may run while dpctl is searched for, and then searches, too.
  session::Runtime::default_runtime()->set_driver_options(options_for_dpctl());
  known.store(&drivers_started(), std::memory_order_release);
  return drivers_started();
}

const device::DriverRegistry& drivers_started() { return *session::Runtime::default_runtime()->drivers(); }

device::PointerInfo attributes_of(const Tensor& tensor) {
  if (tensor.data != nullptr) return drivers().context(tensor.device)->describe(tensor.data);
  // There is no pointer to ask about.
  device::PointerInfo info;
  info.device = tensor.device;
  info.kind = tensor.kind;
  info.host_accessible = tensor.host_accessible();
  info.managed = tensor.device.type == DeviceType::kCudaManaged;
  return info;
}

void say(LogLevel level, std::string_view text) {
  const GilAcquire lock("logging a copy");
  if (const LogCallback log = log_to_python()) log(level, text);
}

Tensor copy_to(const Tensor& tensor, const Device& target, const Queue* queue, std::optional<MemoryKind> kind) {
  const device::DriverRegistry& all = drivers();
  const GilRelease release;
  return exchange::transfer(tensor, target, kind, queue, all, wait_for_event, say);
}

Tensor copy_for_dlpack(const Tensor& tensor, const Device& target, std::optional<MemoryKind> kind) {
  try {
    return copy_to(tensor, target, nullptr, kind);
  } catch (const UnsupportedError& error) {
    throw ExportError(error.what());
  } catch (const NotFoundError& error) {
    throw ExportError(error.what());
  }
}

Tensor copy_to_queue(const Tensor& tensor, const Queue& queue, std::optional<MemoryKind> kind) {
  // The host's queue orders nothing: a copy to the host is complete when this returns.
  return copy_to(tensor, queue.device(), queue.device() == Device{} ? nullptr : &queue, kind);
}

Tensor on_host(const Tensor& tensor) {
  if (tensor.device == Device{} && !tensor.mask && tensor.ready()) return tensor;
  const device::DriverRegistry& all = drivers();
  const GilRelease release;
  return exchange::on_host(tensor, all, wait_for_event, say);
}

Tensor copy_into(const Tensor& to, const Tensor& from, const Queue* queue) {
  const device::DriverRegistry& all = drivers();
  const GilRelease release;
  return exchange::transfer_into(to, from, queue, all, wait_for_event, say);
}

void require_queue_of(const Queue& queue, const Device& device) {
  if (queue.device() == drivers().for_type(device.type)->owning_device(device)) return;
  throw InvalidArgumentError("the queue is one of " + device::to_string(queue.device()) + ", but the memory is on " +
                             device::to_string(device));
}

Tensor empty_on(const array::ElementType& type, std::span<const std::int64_t> shape, const Device& device,
                const Queue* queue, std::optional<MemoryKind> kind) {
  const device::DriverRegistry& all = drivers();
  const GilReleaseIfHeld release;  // this may open the device, and free memory on the deferred-free list
  const Queue on = queue != nullptr ? *queue : all.default_queue(device);
  require_queue_of(on, device);
  Tensor made = exchange::empty(type, shape, all.context(on), kind.value_or(device::kind_of(device.type)), on);
  if (made.data == nullptr) made.device = device;
  return made;
}

void wait_for(const Tensor& tensor) {
  if (!tensor.mask && tensor.ready()) return;
  const device::DriverRegistry& all = drivers();
  const GilReleaseIfHeld release;  // see pending_without_lock()
  exchange::wait_for(tensor, all, wait_for_event);
}

Tensor waited_for(Tensor tensor) {
  wait_for(tensor);
  return exchange::without_event(std::move(tensor));
}

void refuse_other_context(const Tensor& tensor, const char* protocol) {
  if (tensor.native_context == nullptr || tensor.data == nullptr) [[likely]]
    return;
  if (offload::accessible(tensor, drivers().default_queue(tensor.device), drivers())) return;
  throw ExportError("a device in " + std::string(protocol) +
                    " means its usual context, but this memory is in another context; copy it to a queue of the usual "
                    "context (.copy_to()), or export it by a protocol that tells the context: "
                    "__sycl_usm_array_interface__ or __cuda_array_interface__");
}

void check_stream(const Device& device, PyObject* stream) {
  if (!sycl_stream(device, stream)) exchange::check_dlpack_stream(device, stream_number(stream));
}

void order_for_dlpack(const Tensor& tensor, const Device& of, PyObject* stream) {
  const std::optional<Queue> queue = sycl_stream(of, stream);
  const exchange::DLPackStream number = queue ? std::nullopt : stream_number(stream);
  const device::DriverRegistry& all = drivers();
  // Releases the GIL: on an out-of-order SYCL queue the call waits for the event, and the work before may need the GIL.
  const GilRelease release;
  if (queue) {
    exchange::order_on(tensor, *queue, all, wait_for_event);
  } else {
    exchange::order_for_dlpack(tensor, of, number, all, wait_for_event);
  }
}

RequestedStream stream_for_dlpack(const Device& device) {
  if (device::host_readable(device.type) || drivers().context_or_null(device) == nullptr) return {nb::none()};
  Queue queue = drivers().default_queue(device);
  if (queue.native() == nullptr) return {nb::none()};
  if (device.type == DeviceType::kOneApi) {
    // A producer that understands SYCL queues has imported dpctl. No stream is passed to others.
    const nb::object dpctl = nb::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), "dpctl"));
    if (!dpctl.is_valid()) return {nb::none()};
    nb::object theirs = dpctl.attr("SyclQueue")(sycl_queue_capsule(queue));
    return {std::move(theirs), std::move(queue)};
  }
  nb::object number = checked(PyLong_FromVoidPtr(queue.native()));
  return {std::move(number), std::move(queue)};
}

void note_requested_stream(Tensor* tensor, const std::optional<Device>& source, const RequestedStream& requested) {
  if (tensor->device == Device{}) return;
  const device::DriverRegistry& all = drivers();
  const GilRelease release;  // the call may record an event: see pending_without_lock()
  exchange::note_dlpack_stream(tensor, source, requested.queue, all);
}

void note_default_queue(Tensor* tensor) {
  if (tensor->device == Device{}) return;
  const device::DriverRegistry& all = drivers();
  const GilReleaseIfHeld release;
  exchange::note_work_stream(tensor, all);
}

void order_on_default_queue(const Tensor& tensor) {
  if (tensor.ready()) [[likely]]
    return;
  const device::DriverRegistry& all = drivers();
  const GilReleaseIfHeld release;  // the C exchange API may be called without the GIL
  exchange::order_on_work_stream(tensor, all, wait_for_event);
}

void* default_stream(const Device& device) { return exchange::work_stream(device, drivers()); }

void note_stream(const DLPackExchangeAPI& api, Tensor* tensor) {
  const auto device = exchange::device_of_producer_stream(*tensor, drivers());
  if (!device) return;
  void* native = nullptr;
  const auto type = static_cast<DLDeviceType>(device->type);
  if (api.current_work_stream == nullptr) throw ExportError(kNoStream);
  if (api.current_work_stream(type, static_cast<int32_t>(device->id), &native) != 0) {
    if (PyErr_Occurred() == nullptr) throw ExportError(kNoStream);
    throw nb::python_error();
  }
  const device::DriverRegistry& all = drivers();
  const GilRelease release;
  exchange::note_producer_stream(tensor, native, all);
}

}  // namespace crossdock::python
