#include "crossdock/device/device.h"

#include <optional>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "device/internal/parse_number.h"

namespace crossdock::device {

namespace {

constexpr std::int32_t kLastNamed = static_cast<std::int32_t>(DeviceType::kTrainium);
constexpr std::string_view kSimulated = "sim";
constexpr std::string_view kByNumber = "device type ";  // as to_string() shows a type without a name

std::optional<DeviceType> parse_type(std::string_view text) noexcept {
  if (text == kSimulated) return DeviceType::kExtDev;
  if (text.starts_with(kByNumber)) {
    const auto number = parse_number<std::int32_t>(text.substr(kByNumber.size()));
    return number ? std::optional(static_cast<DeviceType>(*number)) : std::nullopt;
  }
  for (std::int32_t number = 1; number <= kLastNamed; ++number) {
    const std::string_view name = device_type_name(static_cast<DeviceType>(number));
    if (!name.empty() && name == text) return static_cast<DeviceType>(number);
  }
  return std::nullopt;
}

[[noreturn]] void throw_no_device(std::string_view text) {
  std::string what(1, '"');
  what += excerpt(text);
  what += "\" is not a device; give a type, and a colon and the device's number ";
  what += "unless that is 0, as in \"cuda:1\"; the types:";
  for (std::int32_t number = 1; number <= kLastNamed; ++number) {
    const std::string_view name = device_type_name(static_cast<DeviceType>(number));
    if (name.empty()) continue;
    what += ' ';
    what += name;
    what += ',';
  }
  what += " sim (the simulated device, ext_dev), or \"device type 77\" for one without a name";
  throw InvalidArgumentError(what);
}

}  // namespace

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

std::string_view device_class_name(DeviceClass device_class) noexcept {
  switch (device_class) {
    case DeviceClass::kCpu: return "cpu";
    case DeviceClass::kGpu: return "gpu";
    case DeviceClass::kAccelerator: return "accelerator";
  }
  return {};
}

bool host_readable(DeviceType type) noexcept {
  // Managed memory isn't listed: whether the host may touch it while the device works depends on the device.
  return type == DeviceType::kCpu || type == DeviceType::kCudaHost || type == DeviceType::kRocmHost;
}

bool has_addresses(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::kOpenCl:
    case DeviceType::kVulkan:
    case DeviceType::kMetal:
    case DeviceType::kWebGpu: return false;
    default: return !device_type_name(type).empty();
  }
}

MemoryKind kind_of(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::kCpu:
    case DeviceType::kCudaHost:
    case DeviceType::kRocmHost: return MemoryKind::kHost;
    case DeviceType::kCudaManaged: return MemoryKind::kShared;
    default: return MemoryKind::kDevice;
  }
}

bool host_reaches(DeviceType type) noexcept { return kind_of(type) != MemoryKind::kDevice; }

std::string to_string(const Device& device) {
  if (device.type == DeviceType::kCpu) return "cpu";
  const std::string_view name = device_type_name(device.type);
  const std::string shown =
      name.empty() ? "device type " + std::to_string(static_cast<std::int32_t>(device.type)) : std::string(name);
  return shown + ":" + std::to_string(device.id);
}

Device parse_device(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::optional<DeviceType> type = parse_type(text.substr(0, colon));
  if (!type) throw_no_device(text);
  if (colon == std::string_view::npos) return *type == DeviceType::kCpu ? Device{} : Device{.type = *type, .id = 0};
  const auto id = parse_number<std::int64_t>(text.substr(colon + 1));
  if (!id) throw_no_device(text);
  return {.type = *type, .id = *id};
}

}  // namespace crossdock::device
