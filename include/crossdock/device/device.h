#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "crossdock/core/export.h"

namespace crossdock::device {

/// What kind of device memory belongs to: the numbers of the Arrow C Device data interface and of DLPack, which agree.
/// A number without a name here is carried through as it is; it is refused only where its bytes must be read.
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

/// The type's name in lower case, as in "cuda_managed"; empty for a number without a name.
CROSSDOCK_EXPORT std::string_view device_type_name(DeviceType type) noexcept;

/// What a device computes with, in SYCL's words: what filter strings choose by.
enum class DeviceClass : std::uint8_t { kCpu, kGpu, kAccelerator };

/// "cpu", "gpu", "accelerator".
CROSSDOCK_EXPORT std::string_view device_class_name(DeviceClass device_class) noexcept;

/// True where any host thread may read the memory as soon as the work that writes it is done.
CROSSDOCK_EXPORT bool host_readable(DeviceType type) noexcept;

/// One device. For the CPU Arrow recommends -1; any number is taken, and every CPU device is the same one.
struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int64_t id = -1;

  bool operator==(const Device& other) const noexcept {
    return type == other.type && (id == other.id || type == DeviceType::kCpu);
  }
};

/// "cpu", "cuda:1", "device type 77:0".
CROSSDOCK_EXPORT std::string to_string(const Device& device);

/// The device that `text` names: what to_string() prints; a name alone for its device 0 ("cuda"); "sim:1" for
/// "ext_dev:1", which is what the simulated device is. Whether there is such a device isn't looked at. Throws
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
