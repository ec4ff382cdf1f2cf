#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "crossdock/device/pool.h"

/// NumPy's large arrays in a pool, by NEP 49. NumPy keeps the allocator in a context variable, and engines run tasks in
/// contexts that they made earlier. So this doesn't set another allocator: it replaces the functions of the default
/// one, which every context has, and calls the original functions for everything that isn't ours.
namespace crossdock::python::numpy_allocator {

/// Has NumPy allocate data of at least `threshold` bytes in `pool` from now on. What the pool can't allocate comes from
/// where it came from before. A pool that was installed once lives as long as the process. `api` is NumPy's table of C
/// functions, the capsule _ARRAY_API. Call it with the GIL held. Throws UnsupportedError for an unknown form of
/// allocator.
void install(nanobind::handle api, const std::shared_ptr<device::Pool>& pool, std::uint64_t threshold);
/// Has NumPy allocate as before. Arrays in a pool stay valid. Call it with the GIL held.
void uninstall() noexcept;

}  // namespace crossdock::python::numpy_allocator
