#pragma once

#include "crossdock/array/tensor.h"
#include "crossdock/device/registry.h"

/// Kind and device of memory where a protocol doesn't tell them. DLPack and Arrow give memory a device type. CUDA's and
/// ROCm's types tell pinned and managed memory apart. SYCL's don't: all USM memory is oneAPI's, and only the driver
/// knows which of it the host can access.
namespace crossdock::exchange {

/// True if memory of this device type may be of any kind.
constexpr bool leaves_kind_open(device::DeviceType type) noexcept {
  return type == device::DeviceType::kOneApi || type == device::DeviceType::kExtDev;
}

/// True if DLPack doesn't say which device the memory belongs to. It gives CUDA's pinned and managed memory the number
/// 0 whatever device made it, and a copy by the context of another device may be refused.
constexpr bool leaves_device_open(device::DeviceType type) noexcept {
  return type == device::DeviceType::kCudaHost || type == device::DeviceType::kCudaManaged;
}

/// Sets kind and device of a tensor's memory, and of its mask's, to what the driver reports for the address.
///
/// Sets only what the protocol leaves open, and only if the driver confirms the rest. Changes nothing if the device
/// type is specific enough, if no driver knows the device, or for memory of contexts that the driver doesn't know.
/// Throws as Context::describe() and DriverRegistry::context().
void resolve_memory_kind(array::Tensor* tensor, const device::DriverRegistry& drivers);

}  // namespace crossdock::exchange
