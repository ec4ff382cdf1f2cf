#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Binds _native.Pool and its buffers, and the hook of NumPy's allocator. crossdock/pool.py makes NumPy arrays of them.
void bind_pool(nanobind::module_& module);

}  // namespace crossdock::python
