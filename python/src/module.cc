#include "module.h"

#include <nanobind/stl/string_view.h>

#include "arena.h"
#include "column/column.h"
#include "crossdock/core/debug.h"
#include "crossdock/version.h"
#include "deferred.h"
#include "errors.h"
#include "inspect.h"
#include "offload/manager.h"
#include "peers/peers.h"
#include "pool.h"
#include "python_api.h"
#include "reader.h"
#include "source_thread.h"
#include "tensor/tensor.h"
#include "types.h"

namespace nb = nanobind;

namespace {

/// Returns false, with the Python error set, in a sub-interpreter. The module's types exist once per process, and the
/// library's threads take the GIL of the main interpreter.
bool in_main_interpreter() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return true;
  PyErr_SetString(PyExc_ImportError, "crossdock serves the main interpreter only, not a sub-interpreter");
  return false;
}

/// Throws in a sub-interpreter. Needed since Python 3.13, where PyInit__native() always runs in the main interpreter
/// and only the later phase of the import runs in the importing one.
void refuse_other_interpreters() {
  if (!in_main_interpreter()) throw nb::python_error();
}

}  // namespace

// Renames nanobind's init function. Python calls PyInit__native() below, which first checks the interpreter.
#define PyInit__native crossdock_init_native
NB_MODULE(_native, module) {
  if (!crossdock::python::look_up_python_functions()) throw nb::python_error();
  refuse_other_interpreters();
  module.doc() = "Crossdock's native part; use the package crossdock.";
  module.attr("__version__") = crossdock::version();
  // Disables nanobind's report of leaks: objects that live until the interpreter ends are allowed, and a library
  // doesn't print.
  nb::set_leak_warnings(false);

  crossdock::python::register_errors(module);
  crossdock::python::bind_types(module);
  crossdock::python::bind_limits(module);
  crossdock::python::bind_memory_parts(module);
  crossdock::python::bind_networks(module);
  crossdock::python::bind_reader(module);
  crossdock::python::bind_inspect(module);
  crossdock::python::bind_client(module);
  crossdock::python::bind_server(module);
  crossdock::python::bind_relay(module);
  crossdock::python::bind_arena(module);
  crossdock::python::bind_pool(module);
  crossdock::python::bind_peers(module);
  crossdock::python::bind_file(module);
  crossdock::python::bind_tensor(module);
  crossdock::python::bind_column(module);
  crossdock::python::bind_offload(module);
  crossdock::python::bind_devices(module);
  crossdock::python::bind_testing(module);
  crossdock::python::bind_deferred(module);

  crossdock::python::register_source_threads_at_fork(module);
  module.def("report_faults", crossdock::report_faults);
  module.def("stop_reporting_faults", crossdock::stop_reporting_faults);
  module.def("close_all_servers", crossdock::python::close_all_servers);
  module.def("close_all_relays", crossdock::python::close_all_relays);
  // At the exit, the last one is called first. Handlers of the application's that are registered later come before all
  // of them. Servers and relays say in the log that they end.
  const auto at_exit = nb::module_::import_("atexit").attr("register");
  for (const char* const name : {"_end_deferred_thread", "close_all_servers", "close_all_relays"}) {
    at_exit(module.attr(name));
  }
}
#undef PyInit__native

// Python demands this name. NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" NB_EXPORT PyObject* PyInit__native() {
  // Checks before nanobind's init function runs: that would confuse the types of two interpreters.
  return !in_main_interpreter() ? nullptr : crossdock_init_native();
}
