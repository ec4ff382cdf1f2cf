#include "crossdock/offload/placement.h"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::offload {
namespace {

using array::Tensor;
using device::Device;
using device::MemoryKind;
using device::Queue;

/// True for the host's own memory: ordinary host memory, whatever queue filled it, or host-readable memory without a
/// queue.
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

/// True if work on `queue` comes after all that is pending on the array, whatever order is made.
bool comes_after(const std::optional<Queue>& queue, const Tensor& array) noexcept {
  return (!array.queue || array.queue == queue) && array.event.native() == nullptr &&
         (array.mask == nullptr || comes_after(queue, *array.mask));
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

[[noreturn]] void fail_out_of_reach(std::size_t position, const Tensor& array, const Queue& queue) {
  throw ExecutionPlacementError("array " + std::to_string(position) + ", in memory of " + to_string(array.device) +
                                ", can't be used by work on " + text_of(queue) +
                                ": copy it there first, with collocate() or copy_to()");
}

}  // namespace

std::optional<Queue> queue_of(const Tensor& array, const device::DriverRegistry& drivers) {
  if (is_host_array(array)) return std::nullopt;
  if (array.queue) return array.queue;
  return drivers.default_queue(array.device);
}

std::optional<Queue> first_queue_of(std::span<const Tensor* const> arrays, const device::DriverRegistry& drivers) {
  for (const Tensor* array : arrays) {
    if (auto queue = queue_of(*array, drivers)) return queue;
  }
  return std::nullopt;
}

bool accessible(const Tensor& array, const Queue& queue, const device::DriverRegistry& drivers) {
  if (array.mask && !accessible(*array.mask, queue, drivers)) return false;
  const device::BufferRef memory{.data = array.data,
                                 .size = static_cast<std::uint64_t>(array.nbytes()),
                                 .device = array.device,
                                 .kind = array.kind,
                                 .read_only = array.read_only};
  return drivers.context(queue.device())->accessible(memory, queue);
}

Placement placement(std::span<const Tensor* const> arrays, const std::optional<Queue>& queue,
                    const device::DriverRegistry& drivers, const exchange::WaitFunction& wait) {
  Placement answer{.queue = queue, .kind = MemoryKind::kHost};
  std::size_t first = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Tensor& array = *arrays[i];
    if (is_host_array(array)) continue;
    if (rank(array.kind) > rank(answer.kind)) answer.kind = array.kind;
    if (queue) {
      if (!accessible(array, *queue, drivers)) fail_out_of_reach(i, array, *queue);
      continue;
    }
    if (array.queue && answer.queue && *array.queue == *answer.queue) continue;
    const Queue its = *queue_of(array, drivers);
    if (!answer.queue) {
      answer.queue = its;
      first = i;
    } else if (its != *answer.queue) {
      fail_two_queues(first, *answer.queue, i, its);
    }
  }
  for (const Tensor* array : arrays) {
    if (comes_after(answer.queue, *array)) continue;
    exchange::order_on(*array, answer.queue.value_or(Queue(Device{}, nullptr, nullptr)), drivers, wait);
  }
  return answer;
}

}  // namespace crossdock::offload
