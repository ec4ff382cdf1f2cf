#include "crossdock/device/registry.h"

#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "host/host_driver.h"

namespace crossdock::device {

void DriverRegistry::check_name_free(std::string_view name) const {
  const auto same_name = [name](const DriverReport& report) { return report.name == name; };
  if (std::any_of(reports_.begin(), reports_.end(), same_name)) {
    throw InvalidArgumentError("a driver named \"" + std::string(name) + "\" was added already");
  }
}

void DriverRegistry::add(std::shared_ptr<Driver> driver, std::vector<std::string> tried) {
  if (driver == nullptr) throw InvalidArgumentError("no driver was given to add");
  check_name_free(driver->name());
  DriverReport report{.name = std::string(driver->name()),
                      .found = true,
                      .version = driver->version(),
                      .devices = driver->devices(),
                      .tried = std::move(tried)};
  reports_.reserve(reports_.size() + 1);
  drivers_.push_back(std::move(driver));
  reports_.push_back(std::move(report));
}

void DriverRegistry::add_missing(std::string name, std::vector<std::string> tried) {
  check_name_free(name);
  reports_.push_back(
      {.name = std::move(name), .found = false, .version = {}, .devices = {}, .tried = std::move(tried)});
}

std::shared_ptr<Driver> DriverRegistry::find(std::string_view name) const noexcept {
  const auto same_name = [name](const std::shared_ptr<Driver>& driver) { return driver->name() == name; };
  const auto found = std::find_if(drivers_.begin(), drivers_.end(), same_name);
  return found == drivers_.end() ? nullptr : *found;
}

std::shared_ptr<Driver> DriverRegistry::for_type(DeviceType type) const {
  for (const std::shared_ptr<Driver>& driver : drivers_) {
    if (driver->handles(type)) return driver;
  }
  const std::string_view name = device_type_name(type);
  std::string what = "no driver for memory of ";
  what += name.empty() ? "device type " + std::to_string(static_cast<std::int32_t>(type)) : std::string(name);
  what += "; drivers:";
  for (const DriverReport& report : reports_) {
    what += " " + report.name + (report.found ? " (found, for other devices)" : " (not found)");
    for (const std::string& line : report.tried) what += ", tried " + line;
    what += ";";
  }
  if (reports_.empty()) what += " none;";
  what += " install what is missing, or copy the data to host memory first";
  throw UnsupportedError(what);
}

std::shared_ptr<const DriverRegistry> make_default_registry() {
  auto registry = std::make_shared<DriverRegistry>();
  registry->add(make_host_driver());
  return registry;
}

}  // namespace crossdock::device
