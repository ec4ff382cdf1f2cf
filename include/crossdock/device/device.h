#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "crossdock/core/export.h"

namespace crossdock::device {

/// The kind of device that memory belongs to: the numbers of the Arrow C Device data interface and of DLPack, which
/// agree. A number without a name here is passed on unchanged. It is an error only where the memory's bytes must be
/// read.
enum class DeviceType : std::int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,
  kOpenCl = 4,
  kVulkan = 7,
  kMetal = 8,
  kVpi = 9,
  kRocm = 10,
  kRocmHost = 11,
  kExtDev = 12,
  kCudaManaged = 13,
  kOneApi = 14,
  kWebGpu = 15,
  kHexagon = 16,
  kMaia = 17,      // DLPack 1.3
  kTrainium = 18,  // DLPack 1.3
};

/// Returns the type's name in lower case, as in "cuda_managed"; empty for a number without a name.
CROSSDOCK_EXPORT std::string_view device_type_name(DeviceType type) noexcept;

/// The class of a device, in SYCL's words. Filter strings select by it.
enum class DeviceClass : std::uint8_t { kCpu, kGpu, kAccelerator };

/// Returns "cpu", "gpu" or "accelerator".
CROSSDOCK_EXPORT std::string_view device_class_name(DeviceClass device_class) noexcept;

/// Returns true if any host thread may read the memory as soon as the work that writes it is done.
CROSSDOCK_EXPORT bool host_readable(DeviceType type) noexcept;

/// One device. For the CPU, Arrow recommends the id -1; any id is accepted, and all CPU devices are the same device.
struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int64_t id = -1;

  bool operator==(const Device& other) const noexcept {
    return type == other.type && (id == other.id || type == DeviceType::kCpu);
  }
};

/// Returns a device's text, as in "cpu", "cuda:1", "device type 77:0".
CROSSDOCK_EXPORT std::string to_string(const Device& device);

/// Returns the device that `text` names. Accepts the texts of to_string(); a name alone for its device 0 ("cuda"); and
/// "sim:1" for "ext_dev:1", the type of the simulated device. Doesn't check whether such a device exists. Throws
/// InvalidArgumentError, which says what is accepted.
CROSSDOCK_EXPORT Device parse_device(std::string_view text);

}  // namespace crossdock::device

template <>
struct std::hash<crossdock::device::Device> {
  std::size_t operator()(const crossdock::device::Device& device) const noexcept {
    const auto type = static_cast<std::uint64_t>(device.type);
    const auto id = device.type == crossdock::device::DeviceType::kCpu ? 0 : static_cast<std::uint64_t>(device.id);
    return std::hash<std::uint64_t>{}((type << 48) ^ id);
  }
};
