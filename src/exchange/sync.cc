#include "crossdock/exchange/sync.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock::exchange {

bool is_ready(const device::Event& event) {
  // Read before check(): another thread may record the event meanwhile, and that may fail.
  const bool nothing_to_wait_for = event.empty();
  event.check();
  return nothing_to_wait_for;
}

device::Event out_of_reach(const device::Queue& stream) {
  return device::Event::failed(std::make_shared<const ExportError>(
      "the array's work is on a stream of " + device::to_string(stream.device()) + " (" +
      std::to_string(reinterpret_cast<std::uintptr_t>(stream.native())) +
      "), which can't be waited for because no driver for it was found: export it by a protocol that carries the "
      "stream, or order the work yourself and use .unsynchronized()"));
}

bool is_out_of_reach(const array::Tensor& tensor) noexcept {
  if (!tensor.queue || !tensor.event.empty()) return false;
  const std::shared_ptr<const Error> failure = tensor.event.failure();
  return failure != nullptr && failure->code() == ErrorCode::kExport;
}

namespace {

/// The owner that keep_queue() makes.
struct QueuesKept {
  std::shared_ptr<const void> owner;
  std::vector<device::Queue> queues;
};

/// Deleter of QueuesKept. Its type tells which owners are such a list: an owner is otherwise only a pointer.
struct DropQueuesKept {
  void operator()(const QueuesKept* kept) const noexcept { delete kept; }
};

const QueuesKept* queues_kept(const std::shared_ptr<const void>& owner) noexcept {
  return std::get_deleter<DropQueuesKept>(owner) != nullptr ? static_cast<const QueuesKept*>(owner.get()) : nullptr;
}

}  // namespace

void keep_queue(array::Tensor* tensor) {
  if (!tensor->queue) return;
  const QueuesKept* const before = queues_kept(tensor->owner);
  if (before != nullptr && std::ranges::find(before->queues, *tensor->queue) != before->queues.end()) return;
  auto kept = std::unique_ptr<QueuesKept, DropQueuesKept>(new QueuesKept);
  if (before != nullptr) {
    *kept = *before;
  } else {
    kept->owner = tensor->owner;
  }
  kept->queues.push_back(*tensor->queue);
  tensor->owner = std::shared_ptr<const void>(std::shared_ptr<const QueuesKept>(std::move(kept)));
}

void order_on(array::Tensor* tensor, device::Context& context, const device::Queue& queue) {
  // Work on this same queue comes first in any case.
  if (!is_ready(tensor->event) && tensor->event.awaits() != queue) context.order_after(queue, tensor->event);
  tensor->event = {};
}

void wait_ready(array::Tensor* tensor, device::Context& context) {
  if (!is_ready(tensor->event)) context.wait(tensor->event);
  tensor->event = {};
}

}  // namespace crossdock::exchange
