#pragma once

#include <memory>

#include "crossdock/device/memory.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// Which work reaches which memory: a device may have several native contexts, which share no device memory.
namespace crossdock::exchange {

/// Returns true if work on `queue` can't access the memory, because they belong to two native contexts of one driver.
/// Throws as DriverRegistry::for_type().
bool in_another_context(const device::Memory& memory, const device::Queue& queue,
                        const device::DriverRegistry& drivers);

/// Returns the native context of memory on `device` that was allocated for `queue`; null for the device's usual one.
/// Every context reaches memory whose device isn't the queue's: the host's, and CUDA's pinned and managed memory.
inline std::shared_ptr<void> context_of_new(const device::Device& device, const device::Queue& queue) noexcept {
  return device == queue.device() ? queue.shared_native_context() : nullptr;
}

/// Returns a queue whose work reaches the memory: its own if that can be used on this thread, else the one of its
/// native context. Throws as DriverRegistry::queue_in().
device::Queue queue_beside(const device::Memory& memory, const device::DriverRegistry& drivers);

/// Whether the host does the context's work.
inline bool is_host(const device::Context& context) noexcept {
  return context.device().type == device::DeviceType::kCpu;
}

}  // namespace crossdock::exchange
