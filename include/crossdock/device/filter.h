#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/registry.h"

/// Filter strings: text by which people name the device that work is to run on. SYCL's grammar, over all drivers.
///
///     backend:device_type:number[,alternative...]
///
/// Each part may be left out, but one part must be there: "gpu", "cpu:0", "cuda:1", "sycl:gpu", "opencl:cpu:0", ":1". A
/// backend is one of two things. It is the name of a driver ("host", "cuda", "sycl", "sim", and drivers that a program
/// adds to its registry), and selects all devices of that driver. Or it is the name of a backend of SYCL ("opencl",
/// "level_zero", "hip"), and selects the devices that SYCL reaches by it. A driver of the same name comes first, so
/// "cuda" is the driver. A device type is "cpu", "gpu" or "accelerator". The number counts the devices that match the
/// other parts, from 0, driver by driver in the order in which they were added, but with the host last: cuda, sycl,
/// sim, host. Without a number it is 0. The first alternative that a device matches is chosen. Filter strings are in
/// lower case and have no spaces, as SYCL itself reads them, so that a text means the same to both.
namespace crossdock::device {

/// One alternative of a filter string.
struct Filter {
  std::string backend;  ///< Empty: any.
  std::optional<DeviceClass> device_class;
  std::optional<std::int64_t> number;
};

/// Parses a filter string. Returns its alternatives in order. Any word may be a backend: at most 64 lower-case letters,
/// digits and underscores, with a letter first, and no device type. Whether the backend exists is checked by
/// select_device(). Throws InvalidArgumentError for a text that is no filter string: empty, with an invalid part, with
/// a part in the wrong place or twice, with spaces or capitals.
CROSSDOCK_EXPORT std::vector<Filter> parse_filter(std::string_view text);

/// Returns the device that a filter string chooses. Doesn't start drivers that the text doesn't name. Throws like
/// parse_filter(). Throws InvalidArgumentError, which lists the backends, if the backend of any alternative is neither
/// the name of a driver that was looked for nor a backend of SYCL. Throws NotFoundError if no device matches: it lists
/// the devices that exist and the drivers that are missing.
CROSSDOCK_EXPORT Device select_device(const DriverRegistry& drivers, std::string_view text);

/// Returns the device that a filter string chooses among the devices of one driver, as its vendor's library would read
/// the text. A backend is the driver's name, the backend of one of its devices, or a backend of SYCL. Throws
/// like the function above.
CROSSDOCK_EXPORT Device select_device(const Driver& driver, std::string_view text);

/// The filter string of the default device: the first GPU, else the first accelerator, else a CPU.
inline constexpr std::string_view kDefaultFilter = "gpu,accelerator,cpu";

/// A device and the filter string that names it with all three parts, for people: "opencl:cpu:0". select_device()
/// chooses this device for that string. Its backend is SYCL's name of the backend if there is one, else the driver's
/// name. The filter is empty if parse_filter() doesn't accept that name.
struct NamedDevice {
  DeviceInfo info;
  std::string driver;
  std::string filter;
};
/// Returns the filter string of a device, the same as in list_devices(). Asks only the device's own driver. Returns an
/// empty string if the device doesn't exist any more, or has no driver.
CROSSDOCK_EXPORT std::string filter_of(const DriverRegistry& drivers, const Device& device);
/// Returns every device of every driver, in the order in which numbers count them. Starts all drivers.
CROSSDOCK_EXPORT std::vector<NamedDevice> list_devices(const DriverRegistry& drivers);

}  // namespace crossdock::device
