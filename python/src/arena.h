#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "crossdock/device/arena.h"
#include "crossdock/device/device_arena.h"
#include "crossdock/device/queue.h"
#include "device/region.h"

namespace crossdock::python {

/// Returns the arena in a _native.Arena.
std::shared_ptr<device::Arena> arena_in(nanobind::handle arena);

/// Returns the arena of a crossdock.Arena of a device; null for any other object.
std::shared_ptr<device::DeviceArena> device_arena_or_null(nanobind::handle object);
/// Returns the queue in an argument, or the default queue of the arena's device for None. Throws InvalidArgumentError
/// for a queue that can't work on the arena's memory.
device::Queue queue_for(const device::DeviceArena& arena, nanobind::handle queue);

/// Binds _native.Arena and its buffers. crossdock/arena.py makes NumPy arrays of them.
void bind_arena(nanobind::module_& module);

}  // namespace crossdock::python
