#include <bit>

#include "crossdock/core/error.h"
#include "device/cuda_streams.h"
#include "device/interface.h"

namespace crossdock::device {

namespace {

void check_cuda_stream(std::int64_t stream) {
  if (stream != 0) return;
  throw InvalidArgumentError(
      "stream 0 is ambiguous on CUDA: give 1 for the legacy default stream, 2 for the per-thread one");
}

}  // namespace

Interface cuda_interface() noexcept {
  return {.device = DeviceType::kCuda,
          .has_default_stream = true,
          .default_stream = std::bit_cast<void*>(kCudaLegacyStream),
          .last_of_each_device = std::bit_cast<void*>(kCudaPerThreadStream),
          .orders_across_devices = true,
          .check_stream = check_cuda_stream};
}

}  // namespace crossdock::device
