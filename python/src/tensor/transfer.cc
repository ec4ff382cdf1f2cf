#include "transfer.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../deferred.h"
#include "../gil.h"
#include "../offload/dpctl.h"
#include "../wait.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/cuda_array.h"
#include "crossdock/exchange/dlpack.h"
#include "crossdock/exchange/ready.h"
#include "crossdock/exchange/transfer.h"
#include "crossdock/session/context.h"
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

bool is_rocm(DeviceType type) noexcept { return type == DeviceType::kRocm || type == DeviceType::kRocmHost; }

constexpr const char* kNoStream = "a DLPack exporter's C functions don't tell which stream its work is on";

/// CUDA's handle of the stream that orders with all others (CU_STREAM_LEGACY).
constexpr std::intptr_t kLegacyDefault = 1;

[[noreturn]] void fail_stream(const std::string& why) {
  PyErr_SetString(PyExc_ValueError, why.c_str());
  throw nb::python_error();
}

/// SYCL's streams aren't numbers: what dpctl names is a queue, as an object. Nothing for numbers and None.
std::optional<Queue> sycl_stream(const Device& device, PyObject* stream) {
  if (device.type != DeviceType::kOneApi || stream == nullptr || PyIndex_Check(stream) != 0) return std::nullopt;
  auto queue = sycl_queue_in(stream, nullptr);
  if (!queue) fail_stream("stream is a SYCL queue (of dpctl, or crossdock.Queue), -1 or None");
  return queue;
}

/// The native queue that a DLPack consumer names, or nothing for -1: don't order. (DLPack, Python array API standard.)
std::optional<std::intptr_t> native_stream(const Device& device, PyObject* stream) {
  const bool cuda = exchange::is_cuda(device.type);
  const bool rocm = is_rocm(device.type);
  if (stream == nullptr) return cuda ? kLegacyDefault : 0;
  if (PyIndex_Check(stream) == 0 || PyBool_Check(stream) != 0) {
    PyErr_Format(PyExc_TypeError, "stream is an int or None, not %s", Py_TYPE(stream)->tp_name);
    throw nb::python_error();
  }
  const nb::object integer = checked(PyNumber_Index(stream));
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  if (overflow != 0) fail_stream("stream is a handle, which has 64 bits at most");
  if (number == -1) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return std::nullopt;
  }
  if (number < -1) fail_stream("stream is -1, a stream's number or handle, or None");
  if (cuda && number == 0) {
    fail_stream("stream 0 is ambiguous on CUDA: it is 1 for the legacy default stream, 2 for the per-thread one");
  }
  if (rocm && (number == 1 || number == 2)) fail_stream("streams 1 and 2 mean nothing on ROCm; the default one is 0");
  return static_cast<std::intptr_t>(number);
}

/// The tensor's work is what is on the queue now.
void note_queue(Tensor* tensor, const std::shared_ptr<device::Context>& context, const Queue& queue) {
  // SYCL's events cost more than a hand-over: one is made when somebody needs it.
  tensor->event =
      queue.device().type == DeviceType::kOneApi ? device::Event::end_of(context, queue) : context->record(queue);
  tensor->queue = queue;
}

/// The default stream of a device of CUDA or ROCm, by its handle.
bool is_default(const Queue& queue) noexcept {
  const auto native = reinterpret_cast<std::intptr_t>(queue.native());
  return native == (exchange::is_cuda(queue.device().type) ? kLegacyDefault : 0);
}

/// Its work is on a stream whose driver isn't here: whoever can wait for it may be handed it.
void note_unknown_queue(Tensor* tensor, void* native) {
  tensor->queue = Queue(tensor->device, native, tensor->owner ? std::const_pointer_cast<void>(tensor->owner) : nullptr);
  tensor->event = exchange::out_of_reach(*tensor->queue);
}

/// The producer's work comes before what is put on the default stream of `device`, where its interface has one that
/// counts when none is named.
void note_default_stream(Tensor* tensor, const Device& device) {
  if (!exchange::is_cuda(device.type) && !is_rocm(device.type)) return;
  void* const native = exchange::is_cuda(device.type) ? reinterpret_cast<void*>(kLegacyDefault) : nullptr;
  const auto context = drivers().context_or_null(device);
  if (context == nullptr) return note_unknown_queue(tensor, native);
  note_queue(tensor, context, context->wrap_queue(native, nullptr));
}

/// Orders the stream that a consumer names after the tensor's event, on whichever of the devices has it; on all of
/// them where each has one of this name. False if none has, or none's driver knows the event.
bool order_stream(std::span<const Device> devices, std::intptr_t native, const Tensor& tensor) {
  constexpr std::intptr_t kLastNamed = 2;  // CUDA's per-thread default stream
  const auto working = drivers().context(exchange::device_of_event(tensor));
  std::vector<std::shared_ptr<device::Context>> contexts;
  for (const Device& device : devices) {
    auto context = drivers().context_or_null(device);
    if (context == nullptr || context->driver_name() != working->driver_name()) continue;
    if (std::find(contexts.begin(), contexts.end(), context) == contexts.end()) contexts.push_back(std::move(context));
  }
  bool ordered = false;
  for (const auto& context : contexts) {
    std::optional<Queue> queue;
    try {
      queue = context->wrap_queue(reinterpret_cast<void*>(native), nullptr);
    } catch (const InvalidArgumentError&) {
      if (contexts.size() == 1) throw;
      continue;
    }
    context->order_after(*queue, tensor.event);
    ordered = true;
    if (native > kLastNamed) break;
  }
  return ordered;
}

/// exchange::order_on() with the lock released: on a SYCL queue without order it waits for the event, and the work
/// before that may want the lock.
void order_on(Tensor* tensor, device::Context& context, const Queue& queue) {
  const GilRelease release;
  exchange::order_on(tensor, context, queue);
}

}  // namespace

const device::DriverRegistry& drivers() {
  // Guarded by the interpreter lock; who comes in between asks dpctl's place twice.
  static bool prepared = false;
  if (!prepared && holds_lock()) {
    session::Context::default_context()->set_driver_options(options_for_dpctl());
    prepared = true;
  }
  return drivers_started();
}

const device::DriverRegistry& drivers_started() { return *session::Context::default_context()->drivers(); }

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
  const GilAcquire lock("saying how a copy goes");
  if (const LogCallback log = log_to_python()) log(level, text);
}

Tensor copy_to(const Tensor& tensor, const Device& target, const Queue* queue, std::optional<MemoryKind> kind) {
  const device::DriverRegistry& all = drivers();
  const GilRelease release;
  return exchange::transfer(tensor, target, kind, queue, all, wait_for_event, say);
}

Tensor copy_to_queue(const Tensor& tensor, const Queue& queue, std::optional<MemoryKind> kind) {
  // The host's queue orders nothing: what comes to it is there when this returns.
  return copy_to(tensor, queue.device(), queue.device() == Device{} ? nullptr : &queue, kind);
}

Tensor copy_into(const Tensor& to, const Tensor& from, const Queue* queue) {
  const device::DriverRegistry& all = drivers();
  const GilRelease release;
  return exchange::transfer_into(to, from, queue, all, wait_for_event, say);
}

Tensor empty_on(const array::ElementType& type, std::span<const std::int64_t> shape, const Device& device,
                const Queue* queue, std::optional<MemoryKind> kind) {
  const device::DriverRegistry& all = drivers();
  const GilReleaseIfHeld release;  // it may open the device, and give back memory that waits for its work
  const auto context = all.context(device);
  if (queue != nullptr && queue->device() != context->device()) {
    throw InvalidArgumentError("the queue is one of " + device::to_string(queue->device()) +
                               ", which can't order work on memory of " + device::to_string(device));
  }
  Tensor made = exchange::empty(type, shape, context, kind.value_or(array::kind_of(device.type)),
                                queue != nullptr ? *queue : all.default_queue(device));
  if (made.data == nullptr) made.device = device;
  return made;
}

void wait_for(const Tensor& tensor) {
  if (tensor.mask || !exchange::is_ready(tensor)) exchange::wait_for(tensor, drivers(), wait_for_event);
}

Tensor waited_for(Tensor tensor) {
  wait_for(tensor);
  return exchange::unordered(std::move(tensor));
}

void check_stream(const Device& device, PyObject* stream) {
  if (sycl_stream(device, stream)) return;
  const std::optional<std::intptr_t> native = native_stream(device, stream);
  if (device.type == DeviceType::kCpu && stream != nullptr && native) {
    fail_stream("host memory has no streams: stream must be None or -1");
  }
}

void order_for_dlpack(Tensor* tensor, const Device& of, PyObject* stream) {
  if (const auto queue = sycl_stream(of, stream)) {
    const Device working = exchange::device_of_event(*tensor);
    if (working.type != DeviceType::kOneApi) wait_for(*tensor);
    if (working.type == DeviceType::kOneApi) order_on(tensor, *drivers().context(queue->device()), *queue);
    tensor->event = {};
    return;
  }
  const std::optional<std::intptr_t> native = native_stream(stream != nullptr ? of : tensor->device, stream);
  if (exchange::is_out_of_reach(*tensor) && native == reinterpret_cast<std::intptr_t>(tensor->queue->native())) {
    tensor->event = {};  // on the very stream that the work is on
  }
  if (exchange::is_ready(*tensor)) return;
  // Pinned and managed memory is device 0's by its number in DLPack, whoever works on it.
  const bool numbered = exchange::dlpack_device(of) == of || !exchange::is_cuda(of.type);
  // A handle means nothing to another driver than its own.
  const bool family =
      of.type == tensor->device.type || (exchange::is_cuda(of.type) && exchange::is_cuda(tensor->device.type));
  const Device devices[] = {of, numbered ? of : Device{DeviceType::kCuda, 0},
                            family || stream == nullptr ? tensor->device : of};
  if (tensor->device.type == DeviceType::kCpu || (stream == nullptr && tensor->host_accessible())) {
    // Who names no stream may be about to read pinned or managed memory on the host.
    wait_for(*tensor);
  } else if (native && (*native == 0 || !order_stream(devices, *native, *tensor))) {
    // A default stream that has no handle which we could order, or another driver's stream.
    wait_for(*tensor);
  }
  tensor->event = {};
}

AskedStream stream_for_dlpack(const Device& device) {
  if (device::host_readable(device.type) || drivers().context_or_null(device) == nullptr) return {nb::none()};
  Queue queue = drivers().default_queue(device);
  if (queue.native() == nullptr) return {nb::none()};
  if (device.type == DeviceType::kOneApi) {
    // A producer that knows SYCL's queues has imported dpctl; to others it can't be said.
    const nb::object dpctl = nb::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), "dpctl"));
    if (!dpctl.is_valid()) return {nb::none()};
    nb::object theirs = dpctl.attr("SyclQueue")(sycl_queue_capsule(queue));
    return {std::move(theirs), std::move(queue)};
  }
  nb::object number = checked(PyLong_FromVoidPtr(queue.native()));
  return {std::move(number), std::move(queue)};
}

void note_asked_stream(Tensor* tensor, const std::optional<Device>& source, const AskedStream& asked) {
  if (tensor->device.type == DeviceType::kCpu || tensor->data == nullptr) return;
  if (asked.queue) return note_queue(tensor, drivers().context(asked.queue->device()), *asked.queue);
  const bool theirs = source && (exchange::is_cuda(source->type) || is_rocm(source->type));
  note_default_stream(tensor, theirs ? *source : tensor->device);
}

void note_default_queue(Tensor* tensor) {
  if (tensor->device.type == DeviceType::kCpu || tensor->data == nullptr) return;
  const auto context = drivers().context_or_null(tensor->device);
  if (context == nullptr) return note_default_stream(tensor, tensor->device);
  const Queue queue = drivers().default_queue(tensor->device);
  if (queue.native() != nullptr) note_queue(tensor, context, queue);
}

void order_on_default_queue(Tensor* tensor) {
  // Where no driver is, our work stream is the default one: see default_stream().
  if (exchange::is_out_of_reach(*tensor) && is_default(*tensor->queue)) tensor->event = {};
  if (exchange::is_ready(*tensor)) [[likely]]
    return;
  if (device::host_readable(tensor->device.type)) {
    wait_for(*tensor);
    tensor->event = {};
    return;
  }
  const Device device = exchange::device_of_event(*tensor);
  order_on(tensor, *drivers().context(device), drivers().default_queue(device));
}

void* default_stream(const Device& device) {
  if (device.type == DeviceType::kCpu || drivers().context_or_null(device) == nullptr) return nullptr;
  return drivers().default_queue(device).native();
}

void note_stream(const DLPackExchangeAPI& api, Tensor* tensor) {
  const DeviceType memory = tensor->device.type;
  const bool cuda = exchange::is_cuda(memory);
  const auto context = drivers().context_or_null(tensor->device);
  if (context == nullptr && !cuda && !is_rocm(memory)) return;
  // Pinned and managed memory is worked on by the same streams as the device's own.
  const auto type = static_cast<DLDeviceType>(cuda ? DeviceType::kCuda : memory);
  void* native = nullptr;
  if (api.current_work_stream == nullptr) throw ExportError(kNoStream);
  if (api.current_work_stream(type, static_cast<int32_t>(tensor->device.id), &native) != 0) {
    if (PyErr_Occurred() == nullptr) throw ExportError(kNoStream);
    throw nb::python_error();
  }
  // Null is the device's default stream, which CUDA calls 1 where it must not be mistaken for "none".
  if (native == nullptr && cuda) native = reinterpret_cast<void*>(kLegacyDefault);
  if (context == nullptr) return note_unknown_queue(tensor, native);
  if (native == nullptr) return;
  note_queue(tensor, context, context->wrap_queue(native, nullptr));
}

}  // namespace crossdock::python
