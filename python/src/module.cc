#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "crossdock/version.h"

NB_MODULE(_native, module) {
  module.doc() = "Crossdock's native part; use the package crossdock.";
  module.attr("__version__") = crossdock::version();
}
