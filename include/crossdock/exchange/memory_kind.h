#pragma once

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/registry.h"

/// DLPack and Arrow say of memory what type of device it is of. Where that is CUDA's or ROCm's, it tells pinned and
/// managed memory apart; all of SYCL's USM memory is oneAPI's, and only the driver knows which the host reaches.
namespace crossdock::exchange {

/// True if memory of such a device may be of any kind.
constexpr bool leaves_kind_open(device::DeviceType type) noexcept {
  return type == device::DeviceType::kOneApi || type == device::DeviceType::kExtDev;
}

/// True if DLPack doesn't say which device the memory is of: it numbers CUDA's pinned and managed memory 0 whatever
/// made it, and a copy by another device's context may be refused.
constexpr bool leaves_device_open(device::DeviceType type) noexcept {
  return type == device::DeviceType::kCudaHost || type == device::DeviceType::kCudaManaged;
}

/// Sets kind and device of a tensor's memory, and of its mask's, to what the driver says of the address, where the
/// protocol leaves them open and the driver confirms the rest. Else they stay: where the type of device tells, where no
/// driver knows the device, and for memory of contexts that the driver doesn't know. Throws as Context::describe() and
/// DriverRegistry::context().
CROSSDOCK_EXPORT void resolve_memory_kind(array::Tensor* tensor, const device::DriverRegistry& drivers);

}  // namespace crossdock::exchange
