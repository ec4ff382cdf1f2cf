#include "device/interface.h"

namespace crossdock::device {

Interface interface_of(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::kCuda:
    case DeviceType::kCudaHost:
    case DeviceType::kCudaManaged: return cuda_interface();
    case DeviceType::kRocm:
    case DeviceType::kRocmHost: return rocm_interface();
    case DeviceType::kOneApi: return sycl_interface();
    case DeviceType::kExtDev: return {.device = type, .one_type_for_all_kinds = true};
    default: return {.device = type};
  }
}

}  // namespace crossdock::device
