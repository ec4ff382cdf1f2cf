#include "crossdock/array/record_batch.h"

namespace crossdock::array {

std::int64_t RecordBatch::nbytes() const noexcept {
  std::int64_t sum = 0;
  for (const BufferView& buffer : buffers) sum += buffer.size;
  return sum;
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
