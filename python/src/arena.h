#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "crossdock/device/arena.h"
#include "device/region.h"

namespace crossdock::python {

/// Returns the arena in a _native.Arena.
std::shared_ptr<device::Arena> arena_in(nanobind::handle arena);

/// Binds _native.Arena and its buffers. crossdock/arena.py makes NumPy arrays of them.
void bind_arena(nanobind::module_& module);

}  // namespace crossdock::python
