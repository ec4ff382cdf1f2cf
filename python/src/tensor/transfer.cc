#include "transfer.h"

#include <memory>
#include <string>
#include <utility>

#include "../gil.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/cuda_array.h"
#include "crossdock/exchange/dlpack.h"
#include "crossdock/exchange/ready.h"
#include "crossdock/session/context.h"
#include "tensor.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

using array::Tensor;
using device::Device;
using device::DeviceType;
using device::MemoryKind;
using device::Queue;

/// Null if no driver knows the device.
std::shared_ptr<device::Context> context_or_null(const Device& device) {
  try {
    return drivers().context(device);
  } catch (const UnsupportedError&) {
    return nullptr;
  } catch (const NotFoundError&) {
    return nullptr;
  }
}

/// The same tensor, having waited for what the queues of `mover` can't be ordered after: events of other drivers.
Tensor without_foreign_work(Tensor tensor, const device::Context& mover) {
  if (tensor.mask) tensor.mask = std::make_shared<const Tensor>(without_foreign_work(*tensor.mask, mover));
  if (exchange::is_ready(tensor)) return tensor;
  const auto theirs = drivers().context(device_of_event(tensor));
  if (theirs->driver_name() == mover.driver_name()) return tensor;
  theirs->wait(tensor.event);
  tensor.event = {};
  return tensor;
}

/// CUDA's handle of the stream that orders with all others (CU_STREAM_LEGACY).
constexpr std::intptr_t kLegacyDefault = 1;

[[noreturn]] void fail_stream(const std::string& why) {
  PyErr_SetString(PyExc_ValueError, why.c_str());
  throw nb::python_error();
}

/// The native queue that a DLPack consumer names, or nothing for -1: don't order. (DLPack, Python array API standard.)
std::optional<std::intptr_t> native_stream(const Device& device, PyObject* stream) {
  const bool cuda = exchange::is_cuda(device.type);
  const bool rocm = device.type == DeviceType::kRocm || device.type == DeviceType::kRocmHost;
  if (stream == nullptr) return cuda ? kLegacyDefault : 0;
  if (PyLong_Check(stream) == 0 || PyBool_Check(stream) != 0) fail_stream("stream is an int or None");
  const long long number = PyLong_AsLongLong(stream);
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
void note_queue(Tensor* tensor, device::Context& context, const Queue& queue) {
  tensor->event = context.make_event();
  context.record(tensor->event, queue);
  tensor->queue = queue;
}

}  // namespace

const device::DriverRegistry& drivers() { return *session::Context::default_context()->drivers(); }

Device device_of_event(const Tensor& tensor) { return tensor.queue ? tensor.queue->device() : tensor.device; }

device::PointerInfo attributes_of(const Tensor& tensor) {
  return drivers().context(tensor.device)->describe(tensor.data);
}

Tensor copy_to(const Tensor& tensor, const Device& target, const Queue* queue) {
  const bool from_host = tensor.device.type == DeviceType::kCpu;
  const bool to_host = target.type == DeviceType::kCpu;
  const auto to = drivers().context(target);
  if (from_host && to_host) {
    if (queue != nullptr && queue->device() != Device{}) {
      throw InvalidArgumentError("the queue is one of " + device::to_string(queue->device()) +
                                 ", but a copy within host memory runs on no device");
    }
    wait_for(tensor);
    const GilRelease release;
    return exchange::copy(tensor, to, MemoryKind::kHost, to, to->make_queue());
  }
  const Device& moving = to_host ? tensor.device : target;
  const auto mover = drivers().context(moving);
  // The queues of pinned and managed memory are its device's.
  const Device& working = mover->device();
  if (queue != nullptr && queue->device() != working) {
    throw InvalidArgumentError("the queue is one of " + device::to_string(queue->device()) + ", but the copy from " +
                               device::to_string(tensor.device) + " to " + device::to_string(target) +
                               " runs on a queue of " + device::to_string(working));
  }
  if (!from_host && !to_host && drivers().context(tensor.device)->driver_name() != mover->driver_name()) {
    // No driver reaches both: by way of the host.
    return copy_to(copy_to(tensor, Device{}, nullptr), target, queue);
  }
  const GilRelease release;
  Tensor made = exchange::copy(without_foreign_work(tensor, *mover), to, array::kind_of(target.type), mover,
                               queue != nullptr ? *queue : drivers().default_queue(moving),
                               tensor.queue ? context_or_null(tensor.queue->device()) : nullptr);
  if (made.data == nullptr) made.device = target;  // what has no memory says where it was wanted
  // Who names no queue may read the result, or change the source, as soon as this returns.
  const bool host_is_free = queue == nullptr && (from_host || to_host || tensor.host_accessible());
  return host_is_free ? waited_for(std::move(made)) : made;
}

Tensor empty_on(const array::ElementType& type, std::span<const std::int64_t> shape, const Device& device,
                const Queue* queue) {
  const auto context = drivers().context(device);
  if (queue != nullptr && queue->device() != context->device()) {
    throw InvalidArgumentError("the queue is one of " + device::to_string(queue->device()) +
                               ", which can't order work on memory of " + device::to_string(device));
  }
  Tensor made = exchange::empty(type, shape, context, array::kind_of(device.type),
                                queue != nullptr ? *queue : drivers().default_queue(device));
  if (made.data == nullptr) made.device = device;
  return made;
}

Tensor empty_like(const DLTensor& prototype) {
  const Tensor like = exchange::view_dlpack(prototype, 0);
  return empty_on(like.type, like.shape(), like.device, nullptr);
}

void wait_for(const Tensor& tensor) {
  if (tensor.mask) wait_for(*tensor.mask);
  if (exchange::is_ready(tensor)) return;
  const auto context = drivers().context(device_of_event(tensor));
  const GilReleaseIfHeld release;
  context->wait(tensor.event);
}

Tensor waited_for(Tensor tensor) {
  wait_for(tensor);
  return unordered(std::move(tensor));
}

Tensor unordered(Tensor tensor) {
  if (tensor.mask) tensor.mask = std::make_shared<const Tensor>(unordered(*tensor.mask));
  // The queue may own what the memory needs.
  if (tensor.queue) {
    using Both = std::pair<std::shared_ptr<const void>, Queue>;
    tensor.owner = std::make_shared<const Both>(std::move(tensor.owner), *tensor.queue);
  }
  tensor.event = {};
  tensor.queue.reset();
  return tensor;
}

void check_stream(const Device& device, PyObject* stream) {
  const std::optional<std::intptr_t> native = native_stream(device, stream);
  if (device.type == DeviceType::kCpu && stream != nullptr && native) {
    fail_stream("host memory has no streams: stream must be None or -1");
  }
}

void order_for_dlpack(Tensor* tensor, PyObject* stream) {
  if (exchange::is_ready(*tensor)) [[likely]]
    return;
  const std::optional<std::intptr_t> native = native_stream(tensor->device, stream);
  if (tensor->device.type == DeviceType::kCpu || (stream == nullptr && tensor->host_accessible())) {
    // Who names no stream may be about to read pinned or managed memory on the host.
    wait_for(*tensor);
  } else if (native) {
    const auto context = drivers().context(device_of_event(*tensor));
    if (*native == 0) {
      // A device whose default stream has no handle that we could order.
      wait_for(*tensor);
    } else {
      context->order_after(context->wrap_queue(reinterpret_cast<void*>(*native), nullptr), tensor->event);
    }
  }
  tensor->event = {};
}

nb::object stream_for_dlpack(const Device& device) {
  if (device::host_readable(device.type)) return nb::none();
  if (context_or_null(device) == nullptr) return nb::none();
  const void* native = drivers().default_queue(device).native();
  if (native == nullptr) return nb::none();
  return checked(PyLong_FromVoidPtr(const_cast<void*>(native)));
}

void note_default_queue(Tensor* tensor) {
  if (tensor->device.type == DeviceType::kCpu || tensor->data == nullptr) return;
  const auto context = context_or_null(tensor->device);
  if (context == nullptr) return;
  // Of pinned memory no queue was named to the producer, who then used the legacy default one.
  const bool pinned = tensor->device.type == DeviceType::kCudaHost;
  const Queue queue = pinned ? context->wrap_queue(reinterpret_cast<void*>(kLegacyDefault), nullptr)
                             : drivers().default_queue(tensor->device);
  if (queue.native() != nullptr) note_queue(tensor, *context, queue);
}

void order_on_default_queue(Tensor* tensor) {
  if (exchange::is_ready(*tensor)) [[likely]]
    return;
  if (device::host_readable(tensor->device.type)) {
    wait_for(*tensor);
    tensor->event = {};
    return;
  }
  const Device device = device_of_event(*tensor);
  exchange::order_on(tensor, *drivers().context(device), drivers().default_queue(device));
}

void* default_stream(const Device& device) {
  if (device.type == DeviceType::kCpu || context_or_null(device) == nullptr) return nullptr;
  return drivers().default_queue(device).native();
}

void note_stream(const DLPackExchangeAPI& api, Tensor* tensor) {
  const auto context = context_or_null(tensor->device);
  if (context == nullptr) return;
  const DeviceType memory = tensor->device.type;
  const bool cuda = exchange::is_cuda(memory);
  // Pinned and managed memory is worked on by the same streams as the device's own.
  const auto type = static_cast<DLDeviceType>(cuda ? DeviceType::kCuda : memory);
  void* native = nullptr;
  if (api.current_work_stream(type, static_cast<int32_t>(tensor->device.id), &native) != 0) throw nb::python_error();
  // Null is the device's default stream, which CUDA calls 1 where it must not be mistaken for "none".
  if (native == nullptr && cuda) native = reinterpret_cast<void*>(kLegacyDefault);
  if (native == nullptr) return;
  note_queue(tensor, *context, context->wrap_queue(native, nullptr));
}

}  // namespace crossdock::python
