#include "crossdock/offload/placement.h"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "exchange/contexts.h"
#include "offload/find_placement.h"

namespace crossdock::offload {
namespace {

using array::Tensor;
using device::Device;
using device::MemoryKind;
using device::Queue;

/// True for ordinary host memory, with or without a queue, and for pinned memory without a queue.
bool is_host_array(const Tensor& array) noexcept {
  return array.device.type == device::DeviceType::kCpu || (!array.queue && device::host_readable(array.device.type));
}

/// Returns the rank of a kind of memory: new arrays get the kind with the highest rank.
int rank(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::kDevice: return 2;
    case MemoryKind::kShared: return 1;
    default: return 0;
  }
}

std::string text_of(const Queue& queue) {
  if (queue.native() == nullptr) return "the queue of " + to_string(queue.device());
  std::ostringstream text;
  text << "queue " << queue.native() << " of " << to_string(queue.device());
  return text.str();
}

[[noreturn]] void fail_two_queues(std::size_t first, const Queue& one, std::size_t second, const Queue& other) {
  throw ExecutionPlacementError(
      "array " + std::to_string(first) + " is on " + text_of(one) + ", and array " + std::to_string(second) + " on " +
      text_of(other) + ": pass the queue to run on, or copy them to one queue with collocate(), which copies only if " +
      (one.device() == other.device() ? "contexts differ" : "devices differ"));
}

[[noreturn]] void fail_inaccessible(std::size_t position, const Tensor& array, const Queue& queue) {
  throw ExecutionPlacementError("array " + std::to_string(position) + ", in memory of " + to_string(array.device) +
                                ", can't be used by work on " + text_of(queue) +
                                ": copy it there first, with collocate() or copy_to()");
}

}  // namespace

std::optional<Queue> queue_of(const Tensor& array, const device::DriverRegistry& drivers) {
  if (is_host_array(array)) return std::nullopt;
  if (array.queue) return array.queue;
  return drivers.queue_in(array.device, array.context_handle());
}

std::optional<Queue> first_queue_of(std::span<const Tensor* const> arrays, const device::DriverRegistry& drivers) {
  for (const Tensor* array : arrays) {
    if (auto queue = queue_of(*array, drivers)) return queue;
  }
  return std::nullopt;
}

bool accessible(const Tensor& array, const Queue& queue, const device::DriverRegistry& drivers) {
  if (array.mask && !accessible(*array.mask, queue, drivers)) return false;
  if (exchange::in_another_context(array, queue, drivers)) return false;
  const device::BufferRef memory{.data = array.data,
                                 .size = static_cast<std::uint64_t>(array.nbytes()),
                                 .device = array.device,
                                 .kind = array.kind,
                                 .read_only = array.read_only};
  return drivers.context(queue)->accessible(memory, queue);
}

Placement find_placement(std::span<const Tensor* const> arrays, const std::optional<Queue>& queue,
                         const device::DriverRegistry& drivers, bool* ordered) {
  Placement answer{.queue = queue, .kind = MemoryKind::kHost};
  std::size_t first = 0;
  const Queue* own = nullptr;  // the queue of the result, where an array has it as its own
  *ordered = true;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Tensor& array = *arrays[i];
    if (array.mask || !array.event.none()) *ordered = false;
    if (is_host_array(array)) {
      if (array.queue) *ordered = false;
      continue;
    }
    if (rank(array.kind) > rank(answer.kind)) answer.kind = array.kind;
    if (own != nullptr && array.queue && *array.queue == *own) continue;
    if (queue) {
      if (!accessible(array, *queue, drivers)) fail_inaccessible(i, array, *queue);
    } else if (array.queue || array.native_context == nullptr || !answer.queue ||
               !accessible(array, *answer.queue, drivers)) {
      const Queue its = *queue_of(array, drivers);
      if (!answer.queue) {
        answer.queue = its;
        first = i;
      } else if (its != *answer.queue) {
        fail_two_queues(first, *answer.queue, i, its);
      }
    }
    if (!array.queue) continue;
    if (*array.queue == *answer.queue && array.context && array.context->in_order(*array.queue)) {
      own = &*array.queue;
    } else {
      *ordered = false;
    }
  }
  return answer;
}

void order_placement(std::span<const Tensor* const> arrays, const Placement& placement,
                     const device::DriverRegistry& drivers, const exchange::WaitFunction& wait) {
  const Queue queue = placement.queue.value_or(Queue(Device{}, device::NativeQueue(), nullptr));
  for (const Tensor* array : arrays) exchange::order_on(*array, queue, drivers, wait);
}

Placement placement(std::span<const Tensor* const> arrays, const std::optional<Queue>& queue,
                    const device::DriverRegistry& drivers, const exchange::WaitFunction& wait) {
  bool ordered = false;
  Placement answer = find_placement(arrays, queue, drivers, &ordered);
  if (!ordered) order_placement(arrays, answer, drivers, wait);
  return answer;
}

}  // namespace crossdock::offload
