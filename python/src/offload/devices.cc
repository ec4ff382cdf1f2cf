#include "../module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "../gil.h"
#include "../tensor/device.h"
#include "../tensor/transfer.h"
#include "../text.h"
#include "crossdock/device/registry.h"
#include "usm_type.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

/// Returns a list with a dict for each driver that was searched for. Each has a list with a dict for each device.
nb::list devices() {
  std::vector<device::DriverReport> reports;
  std::vector<device::NamedDevice> all;
  without_gil([&] {
    reports = drivers().reports();
    all = device::list_devices(drivers());
  });
  nb::list shown;
  for (const device::DriverReport& report : reports) {
    nb::list its;
    for (const device::NamedDevice& one : all) {
      if (one.driver != report.name) continue;
      nb::list kinds;
      for (const device::MemoryKind kind : one.info.kinds) kinds.append(nb::str(usm_type_name(kind)));
      nb::dict device;
      device["device"] = device_object(one.info.device);
      device["filter"] = one.filter;
      device["device_type"] = device::device_class_name(one.info.device_class);
      device["backend"] = displayed(one.info.backend);
      device["name"] = displayed(one.info.name);
      device["memory"] = one.info.memory;
      device["usm_types"] = kinds;
      its.append(device);
    }
    nb::list tried;
    for (const std::string& one : report.tried) tried.append(displayed(one));
    nb::dict driver;
    driver["driver"] = report.name;
    driver["found"] = report.found;
    driver["version"] = displayed(report.version);
    driver["tried"] = tried;
    driver["devices"] = its;
    shown.append(driver);
  }
  return shown;
}

}  // namespace

void bind_devices(nb::module_& module) {
  module.def(
      "devices", devices,
      "Returns a dict for each driver that was searched for: whether it was found, the paths tried, and its devices.");
}

}  // namespace crossdock::python
