#include "crossdock/exchange/cuda_array.h"

#include <memory>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/exchange/sync.h"
#include "device/cuda_streams.h"
#include "device/interface.h"
#include "exchange/foreign_stream.h"
#include "exchange/internal/stream_handle.h"

namespace crossdock::exchange {
namespace {

using array::Tensor;
using device::Context;
using device::DeviceType;
using device::MemoryKind;

constexpr const char* kCudaArrayName = "__cuda_array_interface__";
constexpr std::int64_t kLegacyStream = device::kCudaLegacyStream;

/// Returns a context to query about pointers; null if there is no driver or no device. The context of any device knows
/// all pointers of its driver, so an open one is used if there is one, and no other device is opened for the query.
std::shared_ptr<Context> any_context(const device::DriverRegistry& drivers) {
  if (auto opened = drivers.opened_context(DeviceType::kCuda)) return opened;
  const auto driver = drivers.find("cuda");
  if (driver == nullptr) return nullptr;
  const auto devices = driver->devices();
  return devices.empty() ? nullptr : drivers.context(devices.front());
}

[[noreturn]] void fail_cuda_array(const std::string& what) {
  throw InvalidDataError(std::string(kCudaArrayName) + ": " + what);
}

/// Sets the address, the device and the kind of memory. The address is the device's; for pinned memory, whose device
/// type is the host's, it is the host's. Checks that all elements lie in the allocation. `pointer` is the one in the
/// dictionary: without elements it only tells the device and the kind. Returns the native context of the pointer, whose
/// default stream a number means; null for the usual one.
void* locate(Tensor* tensor, const void* pointer, const Context& asked) {
  const device::PointerInfo info = asked.describe(pointer);
  const bool known = info.device.type != DeviceType::kCpu;
  if (known) {
    tensor->device = info.device;
    tensor->kind = info.kind;
    if (info.kind == MemoryKind::kDevice && tensor->data != nullptr) tensor->native_context = info.other_context;
  }
  void* const native = info.other_context.get();
  if (tensor->data == nullptr) return native;
  if (!known) {
    fail_cuda_array(
        "the driver doesn't know the pointer in its data: it was freed, is invalid, or is ordinary host memory");
  }
  tensor->data = info.host_address != nullptr ? info.host_address : info.address;
  if (info.base == nullptr || info.size == 0) return native;
  const array::ByteRange range = array::byte_range(*tensor, kCudaArrayName);
  const auto* const base = static_cast<const std::byte*>(info.base);
  const auto* const first = static_cast<const std::byte*>(info.address);
  const std::int64_t before = first - base;
  const auto after = static_cast<std::int64_t>(info.size) - before;
  if (range.lowest < -before || range.highest > after) {
    fail_cuda_array("its elements reach from byte " + std::to_string(before + range.lowest) + " to byte " +
                    std::to_string(before + range.highest) + " of an allocation of " + std::to_string(info.size) +
                    " bytes");
  }
  return native;
}

/// Checks that data and mask are on one device and in one context: otherwise no queue could use both together.
void check_mask(const Tensor& tensor) {
  if (tensor.mask == nullptr || tensor.mask->data == nullptr || tensor.data == nullptr) return;
  const bool one_device = is_cuda(tensor.mask->device.type) && tensor.mask->device.id == tensor.device.id;
  const bool apart = tensor.mask->kind == MemoryKind::kDevice && tensor.kind == MemoryKind::kDevice &&
                     tensor.mask->native_context != tensor.native_context;
  if (one_device && !apart) return;
  fail_cuda_array("its mask is in memory of " + device::to_string(tensor.mask->device) +
                  ", but its data is in memory of " + device::to_string(tensor.device) +
                  (one_device ? " in another context" : ""));
}

/// Returns the object that keeps the stream alive: a stream lives as long as the object that showed it (section on
/// lifetimes in the interface's text).
std::shared_ptr<void> keeper_of(const Tensor& tensor) { return std::const_pointer_cast<void>(tensor.owner); }

}  // namespace

bool is_cuda(DeviceType type) noexcept { return device::interface_of(type).device == DeviceType::kCuda; }

void import_cuda_array(Tensor* tensor, std::int64_t version, CudaStream stream, bool sync,
                       const device::DriverRegistry& drivers) {
  if (version < 0 || version > kCudaArrayVersion) {
    fail_cuda_array("version " + std::to_string(version) + "; versions 0 to 3 are understood");
  }
  if (sync && stream && *stream == 0) {
    fail_cuda_array(
        "stream 0 is ambiguous: it must be None, 1 (the legacy default stream) or 2 (the per-thread one); with "
        "sync=False the stream is ignored");
  }
  if (sync && stream && *stream < 0) fail_cuda_array("stream " + std::to_string(*stream) + " is not a valid stream");
  // Version 0 has no mask, and only version 3 says what `stream` means.
  if (version == 0) tensor->mask = nullptr;
  if (version < kCudaArrayVersion) stream = kLegacyStream;
  tensor->device = {DeviceType::kCuda, 0};
  tensor->kind = MemoryKind::kDevice;
  const void* const pointer = tensor->data;
  array::check_tensor(tensor, kCudaArrayName);
  const bool ordered = sync && stream && tensor->data != nullptr;
  const std::shared_ptr<Context> asked = any_context(drivers);
  if (asked == nullptr) {
    // Nothing can be ordered here: keeps the stream for a consumer that can.
    if (!ordered) return;
    tensor->queue = device::Queue(tensor->device, device::NativeQueue(stream_handle(*stream)), keeper_of(*tensor));
    return;
  }
  if (tensor->data == nullptr && stream) {
    // Without elements, the stream tells the device, unless each device has it.
    const auto its = drivers.for_type(DeviceType::kCuda)->context_of_queue(device::NativeQueue(stream_handle(*stream)));
    if (its) tensor->device = its->device;
  }
  void* const native = pointer != nullptr ? locate(tensor, pointer, *asked) : nullptr;
  check_mask(*tensor);
  if (!ordered) return;
  // Work on a stream of another device or context may reach this memory: pinned, managed, or a peer's.
  device::Queue queue =
      wrap_stream(stream_handle(*stream), {tensor->device, device::NativeContext(native)}, keeper_of(*tensor), drivers);
  std::shared_ptr<Context> context = drivers.context(queue);
  tensor->set_queue(std::move(context), std::move(queue));
}

namespace {

/// True if a reader of the dictionary would take the handle of the tensor's queue for another stream. The handle of
/// another thread's per-thread stream names the reader's own stream, and a default stream is that of the memory's
/// device and context.
bool means_another_stream(const Tensor& tensor) noexcept {
  const device::Queue& queue = *tensor.queue;
  const bool there = queue.device().id == tensor.device.id && queue.native_context() == tensor.context_handle();
  return !queue.usable_here() || (device::is_default_cuda_stream(queue.native()) && !there);
}

/// Returns a queue to show for a tensor that has none of its own to show: one that reaches its memory, and that is
/// never destroyed before its context.
device::Queue lasting_queue(const Tensor& tensor, const device::DriverRegistry& drivers) {
  if (tensor.native_context == nullptr) {
    return drivers.default_queue(tensor.queue ? tensor.queue->device() : tensor.device);
  }
  return drivers.context(tensor.device, tensor.context_handle())
      ->wrap_queue(device::NativeQueue(stream_handle(kLegacyStream)), nullptr);
}

}  // namespace

CudaStream export_cuda_array(Tensor* tensor, const device::DriverRegistry& drivers) {
  if (!is_cuda(tensor->device.type)) {
    throw ExportError("memory of " + device::to_string(tensor->device) +
                      " has no __cuda_array_interface__; copy it to a CUDA device");
  }
  if (!tensor->out_of_reach() && !tensor->ready()) {
    const bool keep = tensor->queue && !means_another_stream(*tensor);
    const device::Queue queue = keep ? *tensor->queue : lasting_queue(*tensor, drivers);
    const std::shared_ptr<Context> context = drivers.context(queue);
    order_on(*tensor, *context, queue);
    tensor->set_queue(context, queue);
  }
  if (tensor->kind == MemoryKind::kHost && tensor->data != nullptr) {
    // The interface has addresses of the device.
    if (const auto context = drivers.context_or_null(tensor->device)) {
      tensor->data = context->describe(tensor->data).address;
    }
  }
  if (!tensor->queue) return std::nullopt;
  const auto handle = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(tensor->queue->native()));
  return handle == 0 ? kLegacyStream : handle;
}

}  // namespace crossdock::exchange
