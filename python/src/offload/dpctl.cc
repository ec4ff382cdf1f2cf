#include "dpctl.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <optional>
#include <string>

#include "../gil.h"
#include "../tensor/tensor.h"
#include "../tensor/usm_array.h"
#include "crossdock/core/error.h"

namespace nb = nanobind;

namespace crossdock::python {
namespace {

constexpr const char* kLibrary = "libDPCTLSyclInterface.so";

/// The folder of the package, or nothing: found without running any of its code.
std::optional<std::string> folder() {
  try {
    const nb::object found = nb::module_::import_("importlib.util").attr("find_spec")("dpctl");
    if (found.is_none()) return std::nullopt;
    const nb::object places = found.attr("submodule_search_locations");
    if (places.is_none() || nb::len(places) == 0) return std::nullopt;
    return nb::cast<std::string>(nb::object(places[0]));
  } catch (nb::python_error&) {  // an import hook that fails is no reason to do without the other drivers
    return std::nullopt;
  }
}

std::optional<device::Queue> cached_queue(const device::Device& device) {
  if (device.type != device::DeviceType::kOneApi || interpreter_ending()) return std::nullopt;
  const GilAcquire locked("asking dpctl for a device's queue");
  try {
    const nb::object manager = nb::module_::import_("dpctl._sycl_queue_manager");
    // In the order of SYCL's own list, as our devices are numbered.
    const nb::object of = nb::module_::import_("dpctl").attr("get_devices")()[device.id];
    return sycl_queue_in(manager.attr("get_device_cached_queue")(of), nullptr);
  } catch (nb::python_error&) {
    return std::nullopt;  // The library is there without its package, or one of another version.
  }
}

}  // namespace

device::DriverOptions options_for_dpctl() {
  device::DriverOptions options;
  if (const auto package = folder()) options.sycl_libraries.push_back(*package + "/" + kLibrary);
  options.default_queue = cached_queue;
  return options;
}

}  // namespace crossdock::python
