#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Binds the functions of the fault report for crossdock/debugging.py.
void bind_debug(nanobind::module_& module);

}  // namespace crossdock::python
