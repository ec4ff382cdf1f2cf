#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/registry.h"

/// Filter strings: how people name the device that work is to run on. SYCL's grammar, over all drivers.
///
///     backend:device_type:number[,alternative...]
///
/// Each part may be left out, but one must be there: "gpu", "cpu:0", "cuda:1", "sycl:gpu", "opencl:cpu:0", ":1". A
/// backend is the name of a driver ("host", "cuda", "sycl", "sim", and what a program adds to its registry), then all
/// of that driver's devices are meant; or what SYCL reaches a device by ("opencl", "level_zero", "hip"; a
/// driver of the same name comes first, so "cuda" is the driver's). A device type is "cpu", "gpu" or "accelerator". The
/// number counts the devices that the other parts leave, from 0, driver by driver as they were added, but the host
/// last: cuda's, sycl's, sim's, the host; without one it is 0. The first alternative that a device matches is taken.
/// Lower case, no spaces: as SYCL itself reads them, so that a text means the same to both.
namespace crossdock::device {

/// One alternative of a filter string.
struct Filter {
  std::string backend;  ///< Empty: any.
  std::optional<DeviceClass> device_class;
  std::optional<std::int64_t> number;
};

/// What a text asks for, alternative by alternative. Any word may be a backend: at most 64 small letters, digits and
/// underscores, a letter first, and no device type; which there are is the registry's to say. Throws
/// InvalidArgumentError for what is no filter string: empty, a part that can't be one, in the wrong place or twice,
/// spaces, capitals.
CROSSDOCK_EXPORT std::vector<Filter> parse_filter(std::string_view text);

/// The device that a filter string chooses. Drivers that the text leaves out aren't started. Throws as parse_filter(),
/// and InvalidArgumentError for a backend, of whichever alternative, that is neither the name of a driver looked for
/// nor SYCL's: it says which there are. NotFoundError if no device matches: it says what there is, and which drivers
/// are missing.
CROSSDOCK_EXPORT Device select_device(const DriverRegistry& drivers, std::string_view text);

/// The same among one driver's devices alone, whose backends all names mean: as its vendor's library would read it. A
/// backend is its own name, what it reaches a device by, or SYCL's.
CROSSDOCK_EXPORT Device select_device(const Driver& driver, std::string_view text);

/// The device on which work runs where nobody said anything: the first GPU, else the first accelerator, else a CPU.
inline constexpr std::string_view kDefaultFilter = "gpu,accelerator,cpu";

/// A device and the filter string with all three parts that names it, for people: "opencl:cpu:0". Given to
/// select_device(), it chooses that device. By SYCL's word for the backend where it has one, else by the driver's name;
/// empty where that is no word that parse_filter() takes.
struct NamedDevice {
  DeviceInfo info;
  std::string driver;
  std::string filter;
};
/// The filter string of a device, as list_devices() has it, having asked its own driver alone; empty for one that isn't
/// there any more, or of no driver.
CROSSDOCK_EXPORT std::string filter_of(const DriverRegistry& drivers, const Device& device);
/// Every device of every driver, in the order that numbers count. Starts all drivers.
CROSSDOCK_EXPORT std::vector<NamedDevice> list_devices(const DriverRegistry& drivers);

}  // namespace crossdock::device
