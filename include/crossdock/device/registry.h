#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/export.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

/// What came of looking for one driver.
struct DriverReport {
  std::string name;
  bool found = false;
  std::string version;             ///< Empty if not found.
  std::vector<Device> devices;     ///< Empty if not found, or if the machine has none.
  std::vector<std::string> tried;  ///< A line for each library tried in vain, with the reason.
};

/// The drivers of a process's choosing: built once, then passed to whoever needs it, never global. Adding is for one
/// thread; a const registry is thread-safe.
class CROSSDOCK_EXPORT DriverRegistry {
 public:
  /// Takes a driver and reports it as found, with what was tried before. Throws InvalidArgumentError if its name is
  /// taken.
  void add(std::shared_ptr<Driver> driver, std::vector<std::string> tried = {});
  /// Notes a driver that isn't there.
  void add_missing(std::string name, std::vector<std::string> tried);

  /// Null if there is none of this name.
  std::shared_ptr<Driver> find(std::string_view name) const noexcept;
  /// The driver for memory of this type. Throws UnsupportedError, which says which drivers there are and what was
  /// tried.
  std::shared_ptr<Driver> for_type(DeviceType type) const;
  /// Of all drivers looked for, in that order.
  const std::vector<DriverReport>& reports() const noexcept { return reports_; }

 private:
  void check_name_free(std::string_view name) const;
  std::vector<std::shared_ptr<Driver>> drivers_;
  std::vector<DriverReport> reports_;
};

/// A registry of every driver that this version has.
CROSSDOCK_EXPORT std::shared_ptr<const DriverRegistry> make_default_registry();

}  // namespace crossdock::device
