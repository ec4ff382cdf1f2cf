#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// devices(): what the command `crossdock devices` prints.
void bind_devices(nanobind::module_& module);

}  // namespace crossdock::python
