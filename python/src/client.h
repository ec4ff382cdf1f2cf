#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Binds _native.Client and CatalogEntry. crossdock/client.py wraps them in the public Python interface.
void bind_client(nanobind::module_& module);

}  // namespace crossdock::python
