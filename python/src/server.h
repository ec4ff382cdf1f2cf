#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Binds _native.Server. crossdock/server.py wraps it in the public Python interface.
void bind_server(nanobind::module_& module);

/// Closes all servers of the process. Called before the interpreter ends, because no Python source may run after that.
/// Needs the GIL.
void close_all_servers();

}  // namespace crossdock::python
