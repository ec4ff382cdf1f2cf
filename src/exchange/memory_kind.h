#pragma once

#include "crossdock/device/memory.h"
#include "crossdock/device/registry.h"
#include "device/interface.h"

/// Kind and device of memory where a protocol doesn't tell them. DLPack and Arrow give memory a device type. CUDA's and
/// ROCm's types tell pinned and managed memory apart. SYCL's don't: all USM memory is oneAPI's, and only the driver
/// knows which of it the host can access.
namespace crossdock::exchange {

/// True if memory of this device type may be of any kind.
inline bool leaves_kind_open(device::DeviceType type) noexcept {
  return device::interface_of(type).one_type_for_all_kinds;
}

/// True if DLPack doesn't say which device the memory belongs to. It gives pinned and managed memory the number 0
/// whatever device made it, and a copy by the context of another device may be refused.
inline bool leaves_device_open(device::DeviceType type) noexcept { return device::interface_of(type).device != type; }

/// Sets device, kind and native context of memory to what the driver reports for its address. Memory in another native
/// context than its device's usual one gets a queue in that context, if it has none.
///
/// Sets only what the protocol leaves open, and only if the driver confirms the rest. Changes nothing if the device
/// type is specific enough, if no driver knows the device, for memory of contexts that the driver doesn't know, and for
/// a null address. Throws as Context::describe() and DriverRegistry::context().
void resolve_memory_kind(device::Memory* memory, const void* address, const device::DriverRegistry& drivers);

}  // namespace crossdock::exchange
