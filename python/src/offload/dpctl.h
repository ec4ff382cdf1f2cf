#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/device/registry.h"

namespace crossdock::python {

/// Returns driver options that make the SYCL driver share SYCL with the package dpctl and packages built on it (dpnp):
/// it uses dpctl's library, and dpctl's cached queue of a device as the default queue. Finds the package without
/// importing it; it is imported when SYCL's default queue is needed. Needs the GIL.
device::DriverOptions options_for_dpctl();

/// Returns the dpctl.SyclQueue that dpctl and packages built on it use for a whole dpctl.SyclDevice. Needs the GIL.
/// Throws nb::python_error.
nanobind::object cached_queue_of(nanobind::handle sycl_device);

}  // namespace crossdock::python
