#include "crossdock/core/error.h"
#include "device/interface.h"

namespace crossdock::device {

namespace {

void check_rocm_stream(std::int64_t stream) {
  if (stream != 1 && stream != 2) return;
  throw InvalidArgumentError("streams 1 and 2 are not defined on ROCm; the default stream is 0");
}

}  // namespace

Interface rocm_interface() noexcept {
  return {.device = DeviceType::kRocm, .has_default_stream = true, .check_stream = check_rocm_stream};
}

}  // namespace crossdock::device
