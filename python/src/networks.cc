#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "gil.h"
#include "module.h"
#include "text.h"
#include "transport/fabric.h"
#include "transport/ucx.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

/// What FabricReport and UcxReport have in common.
template <typename Report>
nb::dict show(const char* transport, const Report& report) {
  nb::list tried;
  for (const std::string& one : report.tried) tried.append(displayed(one));
  nb::dict shown;
  shown["transport"] = transport;
  shown["found"] = report.found;
  shown["library"] = displayed(report.library);
  shown["version"] = displayed(report.version);
  shown["tried"] = tried;
  return shown;
}

/// Returns a list with a dict for each library of a network that was searched for.
nb::list networks(const std::optional<std::string>& fabric_provider, std::vector<std::string> ucx_libraries) {
  transport::FabricOptions fabric_options;
  if (fabric_provider) fabric_options.provider = *fabric_provider;
  transport::UcxReport ucx;
  transport::FabricReport fabric;
  without_gil([&] {
    ucx = transport::find_ucx({.libraries = std::move(ucx_libraries)});
    try {
      fabric = transport::find_fabric(fabric_options);
    } catch (const InvalidArgumentError& error) {  // a provider that can't be used
      fabric = transport::find_fabric();
      fabric.found = false;
      fabric.provider = fabric_options.provider;
      fabric.tried.emplace_back(error.what());
    }
  });
  nb::list shown;
  shown.append(show("ucx", ucx));
  shown.append(show("fabric", fabric));
  shown[1]["provider"] = displayed(fabric.provider);
  return shown;
}

}  // namespace

void bind_networks(nb::module_& module) {
  module.def("networks", networks, nb::arg("fabric_provider").none(), nb::arg("ucx_libraries"),
             "Returns a dict for each library of a network that was searched for: whether it was found, and what was "
             "tried.");
}

}  // namespace crossdock::python
