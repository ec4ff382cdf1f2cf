#include "dpctl.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "../gil.h"
#include "../tensor/sycl_objects.h"
#include "../tensor/tensor.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

constexpr const char* kLibrary = "libDPCTLSyclInterface.so";

/// Returns the folder of the package dpctl, or nullopt. Doesn't run any of its code.
std::optional<std::string> folder() {
  try {
    const nb::object found = nb::module_::import_("importlib.util").attr("find_spec")("dpctl");
    if (found.is_none()) return std::nullopt;
    const nb::object places = found.attr("submodule_search_locations");
    if (places.is_none() || nb::len(places) == 0) return std::nullopt;
    return nb::cast<std::string>(nb::object(places[0]));
  } catch (nb::python_error&) {  // a failing import hook must not prevent the use of other drivers
    return std::nullopt;
  }
}

std::optional<device::Queue> cached_queue(const device::Device& device) {
  if (device.type != device::DeviceType::kOneApi || interpreter_ending()) return std::nullopt;
  const GilAcquire locked("asking dpctl for a device's queue");
  try {
    // Imports the package first, as other code does, so that the locks of its modules are always taken in one order.
    const nb::object package = nb::module_::import_("dpctl");
    // dpctl lists devices in the order of SYCL's own list, by which our devices are numbered.
    return sycl_queue_in(cached_queue_of(package.attr("get_devices")()[device.id]), nullptr);
  } catch (nb::python_error& error) {
    // The library exists without its package, or the package has another version: our own queue is used. Other errors
    // are thrown, because they may not occur the next time: the result is cached, and must not be a different queue
    // than dpctl's.
    if (error.matches(PyExc_ImportError) || error.matches(PyExc_AttributeError)) return std::nullopt;
    throw;
  }
}

}  // namespace

nb::object cached_queue_of(nb::handle sycl_device) {
  return nb::module_::import_("dpctl._sycl_queue_manager").attr("get_device_cached_queue")(sycl_device);
}

device::DriverOptions options_for_dpctl() {
  device::DriverOptions options;
  if (const auto package = folder()) options.sycl_libraries.push_back(*package + "/" + kLibrary);
  options.default_queue = cached_queue;
  return options;
}

}  // namespace crossdock::python
