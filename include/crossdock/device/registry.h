#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/core/function.h"
#include "crossdock/core/impl_ptr.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

/// The options of a registry, for programs that share devices with other libraries.
struct DriverOptions {
  std::vector<std::string> sycl_libraries{};  ///< Where to look for dpctl's library first (sycl.h).
  /// Returns a device's default queue, so that another library can use the same one. Called once per device. Empty: the
  /// driver makes a queue. Called without a lock, possibly by several threads at once. Its exceptions are passed on.
  std::function<std::optional<Queue>(const Device&)> default_queue{};
};

/// The result of looking for one driver.
struct DriverReport {
  std::string name;                ///< Driver::name().
  bool found = false;              ///< Its library was opened; there may be no device nevertheless.
  std::string version;             ///< Empty if not found.
  std::vector<Device> devices;     ///< At the time of the call; empty if not found, or if the machine has none.
  std::vector<std::string> tried;  ///< A line for each library that couldn't be used, with the reason.
};

/// The drivers that a process uses. It is built once, then passed to all code that needs it, and never global. Only one
/// thread may add drivers; a const registry is thread-safe.
class CROSSDOCK_EXPORT DriverRegistry {
 public:
  /// Makes a registry without drivers: add() adds them. make_default_registry() has those of this version.
  explicit DriverRegistry(DriverOptions options = {});
  ~DriverRegistry();

  /// Takes a driver and reports it as found. `tried` lists the libraries that were tried before. Throws
  /// InvalidArgumentError if its name is taken.
  void add(std::shared_ptr<Driver> driver, std::vector<std::string> tried = {});
  /// Adds a driver that wasn't found, for reports.
  void add_missing(std::string name, std::vector<std::string> tried);

  /// Returns the driver of this name; null if there is none.
  std::shared_ptr<Driver> find(std::string_view name) const noexcept;
  /// Returns the names of all drivers that were looked for, in that order, including those that weren't found.
  std::vector<std::string> names() const;
  /// Returns a number that changes whenever the devices of a driver change. A choice among them may then be made again.
  std::uint64_t devices_version() const noexcept;
  /// Returns the driver for memory of this type, the first of several. Throws UnsupportedError, which lists the drivers
  /// and the libraries that were tried, and ends with `otherwise`: what to do instead of installing one.
  std::shared_ptr<Driver> for_type(DeviceType type,
                                   std::string_view otherwise = "copy the data to host memory first") const;
  /// Returns the driver for memory of this device: of several for its type, the first that has the device, or else the
  /// first of all. Throws as for_type(), and as Driver::devices() if there are several.
  std::shared_ptr<Driver> for_device(const Device& device) const;
  /// Returns the reports of all drivers that were looked for, in that order.
  std::vector<DriverReport> reports() const;

  /// Returns the context of the device, or of the device whose queues work on such memory (Driver::owning_device). The
  /// first call opens the device in its usual context; later calls share it. If the device can't be opened, the next
  /// call tries again. Throws like for_type() and Driver::open().
  std::shared_ptr<Context> context(const Device& device) const;
  /// Returns the context that serves a native context (Driver::one_context_each()); for none, as above. Another one
  /// than the device's usual one is opened by the driver, which shares it, and doesn't keep the native context. Throws
  /// likewise.
  std::shared_ptr<Context> context(const Device& device, NativeContext native_context) const;
  /// Returns the context that the queue belongs to. Throws likewise.
  std::shared_ptr<Context> context(const Queue& queue) const { return context(queue.device(), queue.native_context()); }
  /// Returns the same as context(), or null if that throws UnsupportedError or NotFoundError: no driver here has the
  /// device.
  std::shared_ptr<Context> context_or_null(const Device& device) const;
  /// Returns any context of the driver for this type that was opened here before; null if none was. Opens nothing, and
  /// doesn't wait for a context that another thread is opening.
  std::shared_ptr<Context> opened_context(DeviceType type) const noexcept;
  /// Returns the device's queue for work that names no queue. It is made once, by the device's context() or by
  /// DriverOptions::default_queue. Throws like context(), DriverOptions::default_queue and Context::make_queue().
  Queue default_queue(const Device& device) const;
  /// Returns a queue in a native context of the device: default_queue() for none, else the same one as long as the
  /// context is held. Throws likewise.
  Queue queue_in(const Device& device, NativeContext native_context) const;

 private:
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

/// Returns a driver's devices that this process can use. A process that was forked after the driver started can use
/// none; Driver::devices() throws ForkError there. If there are none, `*why`, unless `why` is null, gets the reason.
CROSSDOCK_EXPORT std::vector<Device> devices_of(const Driver& driver, std::string* why = nullptr);

/// Makes a registry of every driver that this version has.
CROSSDOCK_EXPORT std::shared_ptr<const DriverRegistry> make_default_registry(const DriverOptions& options = {});

// Filter strings: text by which people name the device that work is to run on. SYCL's grammar, over all drivers.
//
//     backend:device_type:number[,alternative...]
//
// Each part may be left out, but one part must be there: "gpu", "cpu:0", "cuda:1", "sycl:gpu", "opencl:cpu:0", ":1". A
// backend is one of two things. It is the name of a driver ("host", "cuda", "sycl", "sim", and drivers that a program
// adds to its registry), and selects all devices of that driver. Or it is the name of a backend of SYCL ("opencl",
// "level_zero", "hip"), and selects the devices that SYCL reaches by it. A driver of the same name comes first, so
// "cuda" is the driver. A device type is "cpu", "gpu" or "accelerator". The number counts the devices that match the
// other parts, from 0, driver by driver in the order in which they were added, but with the host last: cuda, sycl,
// sim, host. Without a number it is 0. The first alternative that a device matches is chosen. Filter strings are in
// lower case and have no spaces, as SYCL itself reads them, so that a text means the same to both.

/// One alternative of a filter string.
struct Filter {
  std::string backend;                      ///< Empty: any.
  std::optional<DeviceClass> device_class;  ///< Absent: any.
  std::optional<std::int64_t> number;       ///< Among the devices that match the rest. Absent: 0.
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

/// A device and the filter string that names it, for people.
struct NamedDevice {
  DeviceInfo info;     ///< The driver's description of it.
  std::string driver;  ///< Driver::name().
  /// Names it with all three parts, as in "opencl:cpu:0": select_device() chooses this device for it. Its backend is
  /// SYCL's name of the backend if there is one, else the driver's name. Empty if parse_filter() doesn't accept that
  /// name.
  std::string filter;
};
/// Returns the filter string of a device, the same as in list_devices(). Asks only the device's own driver. Returns an
/// empty string if the device doesn't exist any more, or has no driver.
CROSSDOCK_EXPORT std::string filter_of(const DriverRegistry& drivers, const Device& device);
/// Returns every device of every driver, in the order in which numbers count them. Starts all drivers.
CROSSDOCK_EXPORT std::vector<NamedDevice> list_devices(const DriverRegistry& drivers);

}  // namespace crossdock::device
