#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// The simulated devices of the default context, as crossdock/testing.py offers them.
void bind_testing(nanobind::module_& module);

}  // namespace crossdock::python
