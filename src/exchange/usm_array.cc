#include "crossdock/exchange/usm_array.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "exchange/contexts.h"

namespace crossdock::exchange {
namespace {

using array::Tensor;
using device::Context;
using device::DeviceType;
using device::Queue;

constexpr const char* kUsmArrayName = "__sycl_usm_array_interface__";

[[noreturn]] void fail_usm_array(const std::string& what) {
  throw InvalidDataError(std::string(kUsmArrayName) + ": " + what);
}

/// Sets the device and the kind of the memory. Checks that all elements lie in the allocation.
void locate(Tensor* tensor, const Context& context, const Queue& queue) {
  const array::ByteRange range = array::byte_range(*tensor, kUsmArrayName);
  const auto* const first = static_cast<const std::byte*>(tensor->data);
  const device::PointerInfo info = context.describe(first + range.lowest);
  const device::BufferRef memory{.data = const_cast<std::byte*>(first + range.lowest),
                                 .size = static_cast<std::uint64_t>(range.highest - range.lowest),
                                 .device = info.device,
                                 .kind = info.kind,
                                 .read_only = tensor->read_only};
  if (info.device.type != DeviceType::kOneApi || !context.accessible(memory, queue)) {
    if (range.lowest != 0 && context.describe(first).device.type == DeviceType::kOneApi) {
      fail_usm_array("its elements reach from byte " + std::to_string(range.lowest) +
                     ", which is outside the memory that its data points to");
    }
    fail_usm_array(
        "its data is not a USM pointer of the context of its syclobj: it was freed, is invalid, belongs to another "
        "context or platform, or is ordinary host memory");
  }
  tensor->device = info.device;
  tensor->kind = info.kind;
  if (info.base == nullptr || info.size == 0) {
    // SYCL gives no size for memory that other libraries allocated. Only the last byte can be checked.
    const auto last = context.describe(first + range.highest - 1);
    if (last.device != info.device || last.kind != info.kind) {
      fail_usm_array("its elements reach to byte " + std::to_string(range.highest) +
                     ", which is outside the memory that its data points to");
    }
    return;
  }
  const std::int64_t before = first - static_cast<const std::byte*>(info.base);
  const auto after = static_cast<std::int64_t>(info.size) - before;
  if (range.lowest < -before || range.highest > after) {
    fail_usm_array("its elements reach from byte " + std::to_string(before + range.lowest) + " to byte " +
                   std::to_string(before + range.highest) + " of an allocation of " + std::to_string(info.size) +
                   " bytes");
  }
}

}  // namespace

bool is_usm(const Tensor& tensor) noexcept { return tensor.device.type == DeviceType::kOneApi; }

void import_usm_array(Tensor* tensor, std::int64_t version, const Queue& queue, const device::DriverRegistry& drivers) {
  if (version != kUsmArrayVersion) fail_usm_array("version " + std::to_string(version) + "; version 1 is understood");
  tensor->device = queue.device();
  tensor->kind = device::MemoryKind::kDevice;
  const void* const said = tensor->data;
  array::check_tensor(tensor, kUsmArrayName);
  const std::shared_ptr<Context> context = drivers.context(queue);
  if (tensor->data == nullptr) {
    // Without elements the pointer may be any; if it is one of SYCL's, it tells the kind of memory.
    const device::PointerInfo info = context->describe(said);
    if (info.device == tensor->device) tensor->kind = info.kind;
  } else {
    tensor->native_context = queue.shared_native_context();
    locate(tensor, *context, queue);
  }
  tensor->set_queue(context, queue);
}

Queue export_usm_array(const Tensor& tensor, const device::DriverRegistry& drivers) {
  if (!is_usm(tensor)) {
    throw ExportError("memory of " + device::to_string(tensor.device) +
                      " has no __sycl_usm_array_interface__; copy it to a SYCL device");
  }
  if (tensor.mask)
    throw UnsupportedError(std::string(kUsmArrayName) + " has no masks; pass the array and its mask separately");
  if (array::typestr_of(tensor.type).empty()) {
    throw ExportError(std::string(kUsmArrayName) + " has no typestr for " + array::element_type_name(tensor.type));
  }
  const std::int64_t itemsize = std::max<std::int64_t>(tensor.type.itemsize(), 1);
  for (const std::int64_t stride : tensor.strides()) {
    if (stride % itemsize != 0) {
      throw ExportError(std::string(kUsmArrayName) + " counts strides in elements, but a stride of " +
                        std::to_string(stride) + " bytes is not a multiple of " + std::to_string(itemsize) +
                        "; copy the array first");
    }
  }
  const bool has_queue = tensor.queue && tensor.queue->device().type == DeviceType::kOneApi;
  tensor.event.check();
  if (has_queue && tensor.queue_covers_event()) return *tensor.queue;
  Queue queue = has_queue ? *tensor.queue : queue_beside(tensor, drivers);
  const std::shared_ptr<Context> context = drivers.context(queue);
  if (!has_queue || context->in_order(queue)) order_on(tensor, *context, queue);
  return queue;
}

}  // namespace crossdock::exchange
