#include "exchange/memory_kind.h"

#include <memory>

namespace crossdock::exchange {

namespace {

/// Returns a context that knows the memory; null if there is none. If the device is left open, returns any context of
/// the driver that is open: opening the device that happens to have number 0 would be an unexpected side effect.
std::shared_ptr<device::Context> asked_of(const device::Device& device, const device::DriverRegistry& drivers) {
  if (!leaves_device_open(device.type)) return drivers.context_or_null(device);
  return drivers.opened_context(device.type);
}

}  // namespace

void resolve_memory_kind(device::Memory* memory, const void* address, const device::DriverRegistry& drivers) {
  const bool kind_is_open = leaves_kind_open(memory->device.type);
  const bool device_is_open = leaves_device_open(memory->device.type);
  if ((!kind_is_open && !device_is_open) || address == nullptr) return;
  const std::shared_ptr<device::Context> context = asked_of(memory->device, drivers);
  if (context == nullptr) return;
  const device::PointerInfo info = context->describe(address);
  if (device_is_open && info.device.type == memory->device.type) memory->device = info.device;
  if (!kind_is_open || info.device != memory->device) return;
  memory->kind = info.kind;
  memory->native_context = info.other_context;
  if (memory->native_context == nullptr || memory->queue) return;
  memory->queue = drivers.queue_in(memory->device, memory->context_handle());
  memory->context = drivers.context(*memory->queue);
}

}  // namespace crossdock::exchange
