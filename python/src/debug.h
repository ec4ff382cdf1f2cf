#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// The fault report, as crossdock/debugging.py offers it.
void bind_debug(nanobind::module_& module);

}  // namespace crossdock::python
