#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

void bind_limits(nanobind::module_& module);

}  // namespace crossdock::python
