#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/device/registry.h"

namespace crossdock::python {

/// Options by which the drivers share SYCL with the package dpctl, and with what is built on it (dpnp): its library,
/// and its cached queue of each device as our default one. Looks where the package is, but doesn't import it; that is
/// done when SYCL's default queue is asked for. Needs the interpreter lock.
device::DriverOptions options_for_dpctl();

/// The dpctl.SyclQueue that dpctl and what is built on it use for a whole dpctl.SyclDevice. Needs the lock. Throws
/// nb::python_error.
nanobind::object cached_queue_of(nanobind::handle sycl_device);

}  // namespace crossdock::python
