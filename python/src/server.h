#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// _native.Server. crossdock/server.py puts Python's manners around it.
void bind_server(nanobind::module_& module);

/// Closes every server that is still there: before the interpreter ends, after which no Python source may run. Needs
/// the interpreter lock.
void close_all_servers();

}  // namespace crossdock::python
