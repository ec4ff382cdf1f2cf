#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "gil.h"
#include "module.h"
#include "text.h"
#include "transport/fabric.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

/// Returns a list with a dict for each library of a network that was searched for.
nb::list networks(const std::optional<std::string>& fabric_provider) {
  transport::FabricOptions options;
  if (fabric_provider) options.provider = *fabric_provider;
  transport::FabricReport report;
  without_gil([&] { report = transport::find_fabric(options); });
  nb::list tried;
  for (const std::string& one : report.tried) tried.append(displayed(one));
  nb::dict fabric;
  fabric["transport"] = "fabric";
  fabric["found"] = report.found;
  fabric["library"] = displayed(report.library);
  fabric["version"] = displayed(report.version);
  fabric["provider"] = displayed(report.provider);
  fabric["tried"] = tried;
  nb::list shown;
  shown.append(fabric);
  return shown;
}

}  // namespace

void bind_networks(nb::module_& module) {
  module.def("networks", networks, nb::arg("fabric_provider").none(),
             "Returns a dict for each library of a network that was searched for: whether it was found, and what was "
             "tried.");
}

}  // namespace crossdock::python
