#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// _native.FileReader, open_file and write_file. crossdock/file.py puts Python's manners around them.
void bind_file(nanobind::module_& module);

}  // namespace crossdock::python
