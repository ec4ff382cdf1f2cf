#pragma once

#include <nanobind/nanobind.h>

/// The parts of the module that only module.cc calls. Each is in the file of its name.
namespace crossdock::python {

/// Binds _native.Client and CatalogEntry. crossdock/client.py wraps them in the public Python interface.
void bind_client(nanobind::module_& module);
/// Binds devices(), whose result the command `crossdock devices` prints. In offload/devices.cc.
void bind_devices(nanobind::module_& module);
/// Binds _native.FileReader and write_file. crossdock/file.py wraps them in the public Python interface.
void bind_file(nanobind::module_& module);
void bind_limits(nanobind::module_& module);
/// Binds networks(), whose result the command `crossdock devices` prints.
void bind_memory_parts(nanobind::module_& module);
void bind_networks(nanobind::module_& module);
/// Binds _native.Relay. crossdock/relaying.py wraps it in the public Python interface.
void bind_relay(nanobind::module_& module);
/// Closes all relays of the process. Called before the interpreter ends, because they log to it. Needs the GIL.
void close_all_relays();
/// Binds _native.Server. crossdock/server.py wraps it in the public Python interface.
void bind_server(nanobind::module_& module);
/// Closes all servers of the process. Called before the interpreter ends, because no Python source may run after that.
/// Needs the GIL.
void close_all_servers();
/// Binds the functions of simulated devices for crossdock/testing.py.
void bind_testing(nanobind::module_& module);

}  // namespace crossdock::python
