#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Binds the functions of simulated devices for crossdock/testing.py.
void bind_testing(nanobind::module_& module);

}  // namespace crossdock::python
