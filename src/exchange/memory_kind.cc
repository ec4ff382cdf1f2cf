#include "exchange/memory_kind.h"

#include <memory>
#include <utility>

namespace crossdock::exchange {

namespace {

/// Returns a context that knows the memory; null if there is none. If the device is left open, returns any open CUDA
/// context: opening the device that happens to have number 0 would be an unexpected side effect.
std::shared_ptr<device::Context> asked_of(const array::Tensor& tensor, const device::DriverRegistry& drivers) {
  if (!leaves_device_open(tensor.device.type)) return drivers.context_or_null(tensor.device);
  const auto driver = drivers.find("cuda");
  return driver != nullptr ? drivers.opened_context(*driver) : nullptr;
}

}  // namespace

void resolve_memory_kind(array::Tensor* tensor, const device::DriverRegistry& drivers) {
  if (tensor->mask) {
    array::Tensor mask = *tensor->mask;
    resolve_memory_kind(&mask, drivers);
    tensor->mask = std::make_shared<const array::Tensor>(std::move(mask));
  }
  const bool kind_is_open = leaves_kind_open(tensor->device.type);
  const bool device_is_open = leaves_device_open(tensor->device.type);
  if ((!kind_is_open && !device_is_open) || tensor->data == nullptr) return;
  const std::shared_ptr<device::Context> context = asked_of(*tensor, drivers);
  if (context == nullptr) return;
  const device::PointerInfo info = context->describe(tensor->data);
  if (device_is_open && info.device.type == tensor->device.type) tensor->device = info.device;
  if (kind_is_open && info.device == tensor->device) tensor->kind = info.kind;
}

}  // namespace crossdock::exchange
