#include "crossdock/exchange/memory_kind.h"

#include <memory>
#include <utility>

namespace crossdock::exchange {

void settle_kind(array::Tensor* tensor, const device::DriverRegistry& drivers) {
  if (tensor->mask && leaves_kind_open(tensor->mask->device.type)) {
    array::Tensor mask = *tensor->mask;
    settle_kind(&mask, drivers);
    tensor->mask = std::make_shared<const array::Tensor>(std::move(mask));
  }
  if (!leaves_kind_open(tensor->device.type) || tensor->data == nullptr) return;
  const std::shared_ptr<device::Context> context = drivers.context_or_null(tensor->device);
  if (context == nullptr) return;
  const device::PointerInfo info = context->describe(tensor->data);
  if (info.device == tensor->device) tensor->kind = info.kind;
}

}  // namespace crossdock::exchange
