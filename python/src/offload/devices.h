#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Binds devices(), whose result the command `crossdock devices` prints.
void bind_devices(nanobind::module_& module);

}  // namespace crossdock::python
