#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// _native.Client and CatalogEntry. crossdock/client.py puts Python's manners around them.
void bind_client(nanobind::module_& module);

}  // namespace crossdock::python
