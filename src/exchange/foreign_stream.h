#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// Streams made by other libraries, for which a protocol gives the handle but not the device.
namespace crossdock::exchange {

/// Wraps such a stream as a queue of the context that it belongs to, on any device of the driver of `otherwise`. Opens
/// that device if it isn't open yet, and no other. Uses `otherwise` if every context has a stream with this handle, or
/// if the driver can't tell. `owner` keeps the stream alive (see Context::wrap_queue()); on a throw it is released.
/// Throws as DriverRegistry::context() and Context::wrap_queue().
device::Queue wrap_stream(void* native, const device::DeviceContext& otherwise, std::shared_ptr<void> owner,
                          const device::DriverRegistry& drivers);

/// Wraps a CUDA stream that is given alone, by its handle, as `__cuda_stream__` does. A default stream (0 and 1: the
/// legacy one, 2: the per-thread one) is that of the device `said`, as named by the provider of the handle; without
/// `said`, that of the context that is current on the calling thread. Throws InvalidArgumentError if a default
/// stream has neither, for a handle that is no stream, and for a device that isn't CUDA's. Throws UnsupportedError
/// without CUDA's driver. Otherwise throws as wrap_stream().
device::Queue wrap_cuda_stream(std::int64_t handle, const std::optional<device::Device>& said,
                               std::shared_ptr<void> owner, const device::DriverRegistry& drivers);

}  // namespace crossdock::exchange
