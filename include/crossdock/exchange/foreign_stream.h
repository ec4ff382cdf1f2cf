#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "crossdock/core/export.h"
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// Streams that other libraries made, of which a protocol gives the handle and not the device.
namespace crossdock::exchange {

/// Such a stream, as a queue of the device that it is of, whichever of its driver's that is: it is opened where it
/// isn't open yet, and no other is. Of `otherwise` where each device has a stream by this handle, or the driver can't
/// tell. `owner` keeps the stream, see Context::wrap_queue(), and goes on a throw. Throws as DriverRegistry::context()
/// and Context::wrap_queue().
CROSSDOCK_EXPORT device::Queue wrap_stream(void* native, const device::Device& otherwise, std::shared_ptr<void> owner,
                                           const device::DriverRegistry& drivers);

/// A CUDA stream that comes alone, as `__cuda_stream__` shows one, by its handle. A default stream (0 and 1: the legacy
/// one, 2: the per-thread one) is that of the device `said` by whoever shows it, else of the one whose context the
/// calling thread has current. Throws InvalidArgumentError where neither is there, for a handle that is no stream, and
/// for a device that isn't CUDA's; UnsupportedError without CUDA's driver; else as wrap_stream().
CROSSDOCK_EXPORT device::Queue wrap_cuda_stream(std::int64_t handle, const std::optional<device::Device>& said,
                                                std::shared_ptr<void> owner, const device::DriverRegistry& drivers);

}  // namespace crossdock::exchange
