#include "debug.h"

#include "crossdock/core/debug.h"

namespace nb = nanobind;

namespace crossdock::python {

void bind_debug(nb::module_& module) {
  module.def("report_faults", report_faults);
  module.def("stop_reporting_faults", stop_reporting_faults);
}

}  // namespace crossdock::python
