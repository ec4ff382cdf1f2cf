#include "crossdock/array/record_batch.h"

namespace crossdock::array {

std::int64_t RecordBatch::nbytes() const noexcept {
  std::int64_t sum = 0;
  for (const BufferView& buffer : buffers) sum += buffer.size;
  return sum;
}

bool RecordBatch::counts_fit() const noexcept {
  if (nodes.size() != schema->nodes().size() || dictionaries.size() != schema->dictionaries().size() ||
      variadic_counts.size() != static_cast<std::size_t>(schema->n_variadic())) {
    return false;
  }
  auto left = static_cast<std::int64_t>(buffers.size()) - schema->n_buffers();
  for (const std::int64_t count : variadic_counts) {
    if (count < 0 || count > left) return false;
    left -= count;
  }
  return left == 0;
}

bool RecordBatch::host_readable() const noexcept {
  if (sync_event != nullptr) return false;
  switch (device_type) {
    case ARROW_DEVICE_CPU:
    case ARROW_DEVICE_CUDA_HOST:
    case ARROW_DEVICE_ROCM_HOST:
    case ARROW_DEVICE_CUDA_MANAGED: return true;
    default: return false;
  }
}

}  // namespace crossdock::array
