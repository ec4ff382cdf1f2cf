#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "crossdock/device/pool.h"

namespace crossdock::python {

/// Returns the pool of a _native.Pool. Throws nb::cast_error for other objects.
std::shared_ptr<device::Pool> pool_in(nanobind::handle pool);
/// Binds _native.Pool and its buffers, and the hook of NumPy's allocator. crossdock/pool.py makes NumPy arrays of them.
void bind_pool(nanobind::module_& module);

}  // namespace crossdock::python
