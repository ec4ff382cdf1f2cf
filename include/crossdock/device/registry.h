#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "crossdock/core/export.h"
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
  std::string name;
  bool found = false;
  std::string version;             ///< Empty if not found.
  std::vector<Device> devices;     ///< At the time of the call; empty if not found, or if the machine has none.
  std::vector<std::string> tried;  ///< A line for each library that couldn't be used, with the reason.
};

/// The drivers that a process uses. It is built once, then passed to all code that needs it, and never global. Only one
/// thread may add drivers; a const registry is thread-safe.
class CROSSDOCK_EXPORT DriverRegistry {
 public:
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
  /// Returns the driver for memory of this type. Throws UnsupportedError, which lists the drivers and the libraries
  /// that were tried.
  std::shared_ptr<Driver> for_type(DeviceType type) const;
  /// Returns the reports of all drivers that were looked for, in that order.
  std::vector<DriverReport> reports() const;

  /// Returns the context of the device, or of the device whose queues work on such memory (Driver::owning_device). The
  /// first call opens the device in its usual context; later calls share it. If the device can't be opened, the next
  /// call tries again. Throws like for_type() and Driver::open().
  std::shared_ptr<Context> context(const Device& device) const;
  /// Returns the same as context(), or null if that throws UnsupportedError or NotFoundError: no driver here has the
  /// device.
  std::shared_ptr<Context> context_or_null(const Device& device) const;
  /// Returns any context of this driver that was opened here before; null if none was. Opens nothing, and doesn't wait
  /// for a context that another thread is opening.
  std::shared_ptr<Context> opened_context(const Driver& driver) const noexcept;
  /// Returns the device's queue for work that names no queue. It is made once, by the device's context() or by
  /// DriverOptions::default_queue. Throws like context(), DriverOptions::default_queue and Context::make_queue().
  Queue default_queue(const Device& device) const;

 private:
  struct Entry;
  struct Opened;
  void check_name_free(std::string_view name) const;
  std::shared_ptr<Opened> opened(const Device& device) const;
  DriverOptions options_;
  std::vector<Entry> entries_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<Device, std::shared_ptr<Opened>> opened_;
};

/// Returns a driver's devices that this process can use. A process that was forked after the driver started can use
/// none; Driver::devices() throws ForkError there. If there are none, `*why`, unless `why` is null, gets the reason.
CROSSDOCK_EXPORT std::vector<Device> devices_of(const Driver& driver, std::string* why = nullptr);

/// Makes a registry of every driver that this version has.
CROSSDOCK_EXPORT std::shared_ptr<const DriverRegistry> make_default_registry(const DriverOptions& options = {});

}  // namespace crossdock::device
