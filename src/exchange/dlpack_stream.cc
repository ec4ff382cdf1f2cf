#include "crossdock/exchange/dlpack.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "device/interface.h"
#include "exchange/contexts.h"
#include "exchange/foreign_stream.h"
#include "exchange/internal/stream_handle.h"

namespace crossdock::exchange {
namespace {

using array::Tensor;
using device::Device;
using device::DeviceType;
using device::DriverRegistry;
using device::Interface;
using device::interface_of;
using device::NativeQueue;
using device::Queue;

using ContextPtr = std::shared_ptr<device::Context>;

/// Returns the handle of the stream that a consumer names: nullopt if it asks for no order, null for a default stream
/// without a handle that could be ordered. Throws as check_dlpack_stream() does for devices.
std::optional<void*> named_stream(const Device& device, DLPackStream stream) {
  const Interface its = interface_of(device.type);
  if (!stream) return its.default_stream;
  if (*stream == kDLPackNoOrder) return std::nullopt;
  if (*stream < 0) throw InvalidArgumentError("stream must be -1, a stream number or handle, or None");
  if (its.check_stream != nullptr) its.check_stream(*stream);
  return stream_handle(*stream);
}

/// Returns the devices on which to look for the consumer's stream: the device `of` that it asked for; the device 0, by
/// which DLPack may have named pinned or managed memory; and the device of the memory, if the same driver serves it.
std::array<Device, 3> candidate_devices(const Device& of, const Device& memory, DLPackStream stream) {
  const DeviceType queues = interface_of(of.type).device;
  const bool same_driver = queues == interface_of(memory.type).device;
  return {of, queues == of.type ? of : Device{queues, 0}, same_driver || !stream ? memory : of};
}

/// Makes `queue`, after whose work the producer has ordered its own, the tensor's. Memory of another context keeps its
/// queue: then this waits, as an order between contexts may not exist.
void note_queue(Tensor* tensor, const Queue& queue, const DriverRegistry& drivers) {
  const ContextPtr context = drivers.context(queue);
  if (in_another_context(*tensor, queue, drivers)) return context->wait(context->record(queue));
  tensor->set_queue(context, queue);
}

/// Sets the queue for work on a stream whose driver isn't here. The tensor may be handed to a consumer that can wait
/// for that stream.
void note_unknown_queue(Tensor* tensor, void* native) {
  tensor->queue = Queue(tensor->device, device::NativeQueue(native), std::const_pointer_cast<void>(tensor->owner));
}

/// Assumes that the producer has ordered its work before the default stream of `device`. Does so only if the interface
/// has a default stream that applies when no stream is named.
void note_default_stream(Tensor* tensor, const Device& device, const DriverRegistry& drivers) {
  const Interface its = interface_of(device.type);
  if (!its.has_default_stream) return;
  void* const native = its.default_stream;
  const ContextPtr context = drivers.context_or_null(device);
  if (context == nullptr) return note_unknown_queue(tensor, native);
  note_queue(tensor, context->wrap_queue(device::NativeQueue(native), nullptr), drivers);
}

/// Orders the consumer's stream after what is pending on the tensor. Orders it on the device of the stream if that can
/// be told; else on the first of `devices` that has this stream; for a handle that names a stream on each device, on
/// all of them, and in the memory's own context. Returns false if none has it, or if the stream is of another driver
/// than the work.
bool order_stream(std::span<const Device> devices, void* native, const Tensor& tensor, const DriverRegistry& drivers) {
  const auto driver = drivers.for_type(context_of_work(tensor, drivers)->device().type);
  const auto order_stream_of = [&](const ContextPtr& context) {
    order_on(tensor, *context, context->wrap_queue(device::NativeQueue(native), nullptr));
  };
  if (driver->handles(devices.front().type)) {
    if (const auto its = driver->context_of_queue(device::NativeQueue(native))) {
      order_stream_of(drivers.context(its->device, its->native));
      return true;
    }
  }
  std::vector<ContextPtr> contexts;
  for (const Device& device : devices) {
    if (!driver->handles(device.type)) continue;
    ContextPtr context = drivers.context_or_null(device);
    if (context != nullptr && std::ranges::find(contexts, context) == contexts.end()) {
      contexts.push_back(std::move(context));
    }
  }
  // Pinned and managed memory is of no context, but its work is.
  const bool each_has_it = native <= interface_of(tensor.device.type).last_of_each_device;
  if (each_has_it && tensor.context != nullptr && tensor.context->native_context()) {
    contexts.push_back(tensor.context);
  } else if (each_has_it && tensor.native_context != nullptr && driver->handles(tensor.device.type)) {
    contexts.push_back(drivers.context(tensor.device, tensor.context_handle()));
  }
  bool ordered = false;
  for (const ContextPtr& context : contexts) {
    try {
      order_stream_of(context);
    } catch (const InvalidArgumentError&) {
      if (contexts.size() == 1) throw;
      continue;
    }
    ordered = true;
    if (native > interface_of(context->device().type).last_of_each_device) break;
  }
  return ordered;
}

}  // namespace

void check_dlpack_stream(const Device& device, DLPackStream stream) {
  if (named_stream(device, stream) && stream && device.type == DeviceType::kCpu) {
    throw InvalidArgumentError("host memory has no streams: stream must be None or -1");
  }
}

void order_for_dlpack(const Tensor& tensor, const Device& of, DLPackStream stream, const DriverRegistry& drivers,
                      const WaitFunction& wait) {
  const std::optional<void*> native = named_stream(stream ? of : tensor.device, stream);
  // Nothing is to order if no order is asked for, or if the consumer uses the same stream as the work.
  if (tensor.out_of_reach() && (!native || *native == tensor.queue->native())) return;
  if (tensor.ready()) return;
  const std::array devices = candidate_devices(of, tensor.device, stream);
  // A consumer that names no stream may read pinned or managed memory on the host at once.
  const bool host_reads = tensor.device.type == DeviceType::kCpu || (!stream && tensor.host_accessible());
  // A default stream without a handle can't be ordered, nor a stream of another driver.
  if (host_reads || (native && (*native == nullptr || !order_stream(devices, *native, tensor, drivers)))) {
    wait_for(tensor, drivers, wait);
  }
}

void note_dlpack_stream(Tensor* tensor, const std::optional<Device>& source, const std::optional<Queue>& asked,
                        const DriverRegistry& drivers) {
  if (tensor->device.type == DeviceType::kCpu || tensor->data == nullptr) return;
  if (asked) return note_queue(tensor, *asked, drivers);
  const bool theirs = source && interface_of(source->type).has_default_stream;
  note_default_stream(tensor, theirs ? *source : tensor->device, drivers);
}

void* work_stream(const Device& device, const DriverRegistry& drivers) {
  if (device.type == DeviceType::kCpu || drivers.context_or_null(device) == nullptr) return nullptr;
  return drivers.default_queue(device).native();
}

void order_on_work_stream(const Tensor& tensor, const DriverRegistry& drivers, const WaitFunction& wait) {
  // Without a driver, our work stream is the default stream: see work_stream().
  if (tensor.out_of_reach() && tensor.queue->native() == interface_of(tensor.queue->device().type).default_stream) {
    return;
  }
  if (tensor.ready()) [[likely]]
    return;
  const Device works = context_of_work(tensor, drivers)->device();
  if (device::host_readable(tensor.device.type)) return wait_for(tensor, drivers, wait);
  if (!interface_of(tensor.device.type).orders_across_devices && works != tensor.device) {
    return wait_for(tensor, drivers, wait);
  }
  order_on(tensor, drivers.default_queue(tensor.device), drivers, wait);
}

void note_work_stream(Tensor* tensor, const DriverRegistry& drivers) {
  if (tensor->device.type == DeviceType::kCpu || tensor->data == nullptr) return;
  if (drivers.context_or_null(tensor->device) == nullptr) return note_default_stream(tensor, tensor->device, drivers);
  const Queue queue = drivers.default_queue(tensor->device);
  if (queue.native() != nullptr) note_queue(tensor, queue, drivers);
}

std::optional<Device> device_of_producer_stream(const Tensor& tensor, const DriverRegistry& drivers) {
  if (tensor.device.type == DeviceType::kCpu) return std::nullopt;
  const Interface its = interface_of(tensor.device.type);
  if (!its.has_default_stream && drivers.context_or_null(tensor.device) == nullptr) return std::nullopt;
  return Device{its.device, tensor.device.id};
}

void note_producer_stream(Tensor* tensor, NativeQueue given, const DriverRegistry& drivers) {
  void* native = given.get();
  // Null is the device's default stream, which may have another handle where null would mean "none".
  if (native == nullptr) native = interface_of(tensor->device.type).default_stream;
  if (drivers.context_or_null(tensor->device) == nullptr) return note_unknown_queue(tensor, native);
  if (native != nullptr) note_queue(tensor, wrap_stream(native, {tensor->device}, nullptr, drivers), drivers);
}

}  // namespace crossdock::exchange
