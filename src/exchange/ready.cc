#include "crossdock/exchange/ready.h"

#include <memory>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::exchange {

bool is_ready(const array::Tensor& tensor) {
  tensor.event.check();
  return tensor.event.empty();
}

device::Event out_of_reach(const device::Queue& stream) {
  return device::Event::failed(
      std::make_shared<const ExportError>("the array's work is on a stream of " + device::to_string(stream.device()) +
                                          " (" + std::to_string(reinterpret_cast<std::uintptr_t>(stream.native())) +
                                          "), which can't be waited for, as no driver for it was found: hand it over "
                                          "by a protocol that carries the stream, "
                                          "or see to the order yourself and take .unsynchronized()"));
}

bool is_out_of_reach(const array::Tensor& tensor) noexcept {
  if (!tensor.queue || !tensor.event.empty()) return false;
  const std::shared_ptr<const Error> failure = tensor.event.failure();
  return failure != nullptr && failure->code() == ErrorCode::kExport;
}

void order_on(array::Tensor* tensor, device::Context& context, const device::Queue& queue) {
  // Work that is on this very queue comes first anyway.
  if (!is_ready(*tensor) && tensor->event.awaits() != queue) context.order_after(queue, tensor->event);
  tensor->event = {};
}

void wait_ready(array::Tensor* tensor, device::Context& context) {
  if (!is_ready(*tensor)) context.wait(tensor->event);
  tensor->event = {};
}

}  // namespace crossdock::exchange
