#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// _native.Arena and its buffers. crossdock/arena.py makes NumPy arrays of them.
void bind_arena(nanobind::module_& module);

}  // namespace crossdock::python
