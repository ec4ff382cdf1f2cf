#include "exchange/contexts.h"

#include <memory>

namespace crossdock::exchange {

using device::DriverRegistry;
using device::Memory;
using device::Queue;

bool in_another_context(const Memory& memory, const Queue& queue, const DriverRegistry& drivers) {
  if (memory.device.type == device::DeviceType::kCpu) return false;
  const device::NativeContext native = memory.context_handle();
  if (native == queue.native_context() && memory.device == queue.device()) return false;
  const std::shared_ptr<device::Driver> driver = drivers.for_type(memory.device.type);
  return driver->handles(queue.device().type) &&
         !driver->reaches({memory.device, native}, memory.kind, {queue.device(), queue.native_context()});
}

Queue queue_beside(const Memory& memory, const DriverRegistry& drivers) {
  const bool own = memory.queue && memory.queue->usable_here() &&
                   drivers.for_type(memory.device.type)->handles(memory.queue->device().type) &&
                   !in_another_context(memory, *memory.queue, drivers);
  return own ? *memory.queue : drivers.queue_in(memory.device, memory.context_handle());
}

}  // namespace crossdock::exchange
