#include "crossdock/exchange/ready.h"

namespace crossdock::exchange {

bool is_ready(const array::Tensor& tensor) {
  tensor.event.check();
  return tensor.event.native() == nullptr;
}

void order_on(array::Tensor* tensor, device::Context& context, const device::Queue& queue) {
  if (!is_ready(*tensor)) context.order_after(queue, tensor->event);
  tensor->event = {};
}

void wait_ready(array::Tensor* tensor, device::Context& context) {
  if (!is_ready(*tensor)) context.wait(tensor->event);
  tensor->event = {};
}

}  // namespace crossdock::exchange
