#include "dpctl.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <optional>
#include <string>

#include "../gil.h"
#include "../tensor/sycl_objects.h"
#include "../tensor/tensor.h"
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
    // The package first, as everybody imports it: its modules' locks have an order.
    const nb::object package = nb::module_::import_("dpctl");
    // In the order of SYCL's own list, as our devices are numbered.
    return sycl_queue_in(cached_queue_of(package.attr("get_devices")()[device.id]), nullptr);
  } catch (nb::python_error& error) {
    // The library is there without its package, or one of another version. Whatever else went wrong may go well the
    // next time, and the answer to this is kept: it mustn't be another queue than everybody else's.
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
