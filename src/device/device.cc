#include "crossdock/device/device.h"

namespace crossdock::device {

std::string_view device_type_name(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::kCpu: return "cpu";
    case DeviceType::kCuda: return "cuda";
    case DeviceType::kCudaHost: return "cuda_host";
    case DeviceType::kOpenCl: return "opencl";
    case DeviceType::kVulkan: return "vulkan";
    case DeviceType::kMetal: return "metal";
    case DeviceType::kVpi: return "vpi";
    case DeviceType::kRocm: return "rocm";
    case DeviceType::kRocmHost: return "rocm_host";
    case DeviceType::kExtDev: return "ext_dev";
    case DeviceType::kCudaManaged: return "cuda_managed";
    case DeviceType::kOneApi: return "oneapi";
    case DeviceType::kWebGpu: return "webgpu";
    case DeviceType::kHexagon: return "hexagon";
    case DeviceType::kMaia: return "maia";
    case DeviceType::kTrainium: return "trainium";
  }
  return {};
}

bool host_readable(DeviceType type) noexcept {
  // Managed memory isn't listed: whether the host may touch it while the device works depends on the device.
  return type == DeviceType::kCpu || type == DeviceType::kCudaHost || type == DeviceType::kRocmHost;
}

std::string to_string(const Device& device) {
  if (device.type == DeviceType::kCpu) return "cpu";
  const std::string_view name = device_type_name(device.type);
  const std::string shown =
      name.empty() ? "device type " + std::to_string(static_cast<std::int32_t>(device.type)) : std::string(name);
  return shown + ":" + std::to_string(device.id);
}

}  // namespace crossdock::device
