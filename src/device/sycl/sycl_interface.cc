#include "crossdock/core/error.h"
#include "device/interface.h"

namespace crossdock::device {

namespace {

void check_sycl_stream(std::int64_t /*stream*/) {
  throw InvalidArgumentError(
      "stream must be a SYCL queue (of dpctl, or crossdock.Queue), -1 or None: SYCL has no stream numbers");
}

}  // namespace

Interface sycl_interface() noexcept {
  return {.device = DeviceType::kOneApi, .one_type_for_all_kinds = true, .check_stream = check_sycl_stream};
}

}  // namespace crossdock::device
