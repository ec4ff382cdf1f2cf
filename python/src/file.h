#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Binds _native.FileReader, open_file and write_file. crossdock/file.py wraps them in the public Python interface.
void bind_file(nanobind::module_& module);

}  // namespace crossdock::python
