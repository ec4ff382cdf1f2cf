#include "crossdock/device/registry.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "device/internal/parse_number.h"

namespace crossdock::device {
namespace {

/// The backends in SYCL's own filter strings. They are listed here so that a text can name them before SYCL is started.
constexpr std::array<std::string_view, 4> kSyclBackends = {"opencl", "level_zero", "cuda", "hip"};
constexpr std::array kClasses = {DeviceClass::kCpu, DeviceClass::kGpu, DeviceClass::kAccelerator};
constexpr std::string_view kHost = "host";
constexpr std::string_view kSycl = "sycl";
constexpr std::size_t kLongestWord = 64;

template <typename Words>
bool among(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::optional<DeviceClass> class_of(std::string_view word) noexcept {
  const auto* const found =
      std::ranges::find_if(kClasses, [word](DeviceClass one) { return device_class_name(one) == word; });
  return found == kClasses.end() ? std::nullopt : std::optional(*found);
}

/// Returns whether a part can be a backend, whether or not there is one of that name.
bool is_backend_word(std::string_view word) noexcept {
  const auto small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto fits = [small](char c) { return small(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !word.empty() && word.size() <= kLongestWord && small(word.front()) && std::ranges::all_of(word, fits) &&
         !class_of(word);
}

std::optional<std::int64_t> number_of(std::string_view word) noexcept {
  const auto number = parse_number<std::int64_t>(word);
  return number && word.front() != '-' ? number : std::nullopt;
}

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  throw InvalidArgumentError("\"" + excerpt(text) + "\" is not a filter string: " + why +
                             "; the form is backend:device_type:number, as in \"gpu\", \"cuda:1\" or \"opencl:cpu:0\", "
                             "in lower case, without spaces, with commas between alternatives");
}

/// The next part of a filter.
enum class Part : std::uint8_t { kBackend, kClass, kNumber, kEnd };

Part after(Part part) noexcept { return static_cast<Part>(static_cast<std::uint8_t>(part) + 1); }

Filter parse_one(std::string_view text, std::string_view one) {
  Filter filter;
  Part next = Part::kBackend;
  bool any = false;
  while (true) {
    const std::size_t colon = one.find(':');
    const std::string_view word = one.substr(0, colon);
    if (word.empty()) {
      if (next == Part::kEnd || colon == std::string_view::npos) fail(text, "a part is missing");
      next = after(next);
    } else {
      any = true;
      if (const auto device_class = class_of(word)) {
        if (next > Part::kClass) fail(text, "\"" + excerpt(word) + "\" is in the wrong place");
        filter.device_class = device_class;
        next = Part::kNumber;
      } else if (const auto number = number_of(word)) {
        if (next > Part::kNumber) fail(text, "its number isn't the last part");
        filter.number = number;
        next = Part::kEnd;
      } else if (is_backend_word(word)) {
        if (next == Part::kClass) fail(text, "\"" + excerpt(word) + "\" is not a device type");
        if (next > Part::kClass) fail(text, "\"" + excerpt(word) + "\" is in the wrong place");
        filter.backend = word;
        next = Part::kClass;
      } else {
        fail(text, "\"" + excerpt(word) + "\" is not a backend, a device type or a number");
      }
    }
    if (colon == std::string_view::npos) break;
    one.remove_prefix(colon + 1);
  }
  if (!any) fail(text, "all of its parts are empty");
  return filter;
}

/// Returns the names of the drivers in the order in which numbers count: as they were added, but with the host last.
std::vector<std::string> names_in_order(const DriverRegistry& drivers) {
  std::vector<std::string> names = drivers.names();
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name != kHost; });
  return names;
}

bool is_driver(const DriverRegistry& drivers, std::string_view backend) { return among(drivers.names(), backend); }

/// Throws InvalidArgumentError for a backend that is neither of these names nor SYCL's.
void check_known(std::string_view text, const Filter& filter, std::vector<std::string> names) {
  const std::string& word = filter.backend;
  if (word.empty() || among(names, word) || among(kSyclBackends, word)) return;
  for (const std::string_view backend : kSyclBackends) {
    if (!among(names, backend)) names.emplace_back(backend);
  }
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  fail(text, "\"" + excerpt(word) + "\" is not a backend (the backends are " + known + ")");
}

bool matches(const Filter& filter, const DeviceInfo& info, bool backend_matches) {
  return (backend_matches || info.backend == filter.backend) &&
         (!filter.device_class || *filter.device_class == info.device_class);
}

/// Returns the `left`-th device of a driver that matches. Decrements `left` for each device that matches.
std::optional<Device> find_in(const Driver& driver, const Filter& filter, bool backend_matches, std::int64_t& left) {
  for (const Device& device : devices_of(driver)) {
    if (matches(filter, driver.info(device), backend_matches) && left-- == 0) return device;
  }
  return std::nullopt;
}

std::optional<Device> find(const DriverRegistry& drivers, const Filter& filter) {
  const bool by_driver = is_driver(drivers, filter.backend);
  // A backend selects one driver: it is the driver's name, or a backend of SYCL.
  const std::string_view only = by_driver || filter.backend.empty() ? std::string_view(filter.backend) : kSycl;
  std::int64_t left = filter.number.value_or(0);
  for (const std::string& name : names_in_order(drivers)) {
    if (!only.empty() && name != only) continue;
    const std::shared_ptr<Driver> driver = drivers.find(name);
    if (driver == nullptr) continue;
    if (const auto device = find_in(*driver, filter, by_driver || filter.backend.empty(), left)) return device;
  }
  return std::nullopt;
}

/// Returns the backends that are accepted if one driver alone is asked: its name, and the backends of its devices.
std::vector<std::string> names_of(const Driver& driver) {
  std::vector<std::string> names = {std::string(driver.name())};
  for (const Device& device : devices_of(driver)) {
    std::string backend = driver.info(device).backend;
    if (is_backend_word(backend) && !among(names, backend)) names.push_back(std::move(backend));
  }
  return names;
}

[[noreturn]] void fail_none(const DriverRegistry& drivers, std::string_view text) {
  std::string what = "no device matches \"" + excerpt(text) + "\"; the devices are:";
  for (const NamedDevice& device : list_devices(drivers)) {
    what += " " + (device.filter.empty() ? to_string(device.info.device) : device.filter) + ",";
  }
  what.back() = ';';
  for (const DriverReport& report : drivers.reports()) {
    if (!report.devices.empty() || report.tried.empty()) continue;
    what += " " + report.name + (report.found ? " has none (" : " wasn't found (");
    for (const std::string& line : report.tried) what += line + ", ";
    what.replace(what.size() - 2, 2, ");");
  }
  what.pop_back();
  throw NotFoundError(what);
}

}  // namespace

std::vector<Filter> parse_filter(std::string_view text) {
  if (text.empty()) fail(text, "it is empty");
  std::vector<Filter> filters;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    filters.push_back(parse_one(text, rest.substr(0, comma)));
    if (comma == std::string_view::npos) return filters;
    rest.remove_prefix(comma + 1);
  }
}

Device select_device(const DriverRegistry& drivers, std::string_view text) {
  const std::vector<Filter> filters = parse_filter(text);
  for (const Filter& filter : filters) check_known(text, filter, drivers.names());
  for (const Filter& filter : filters) {
    if (const auto device = find(drivers, filter)) return *device;
  }
  fail_none(drivers, text);
}

Device select_device(const Driver& driver, std::string_view text) {
  const std::vector<Filter> filters = parse_filter(text);
  for (const Filter& filter : filters) {
    if (!filter.backend.empty()) check_known(text, filter, names_of(driver));
  }
  for (const Filter& filter : filters) {
    std::int64_t left = filter.number.value_or(0);
    const bool any = filter.backend.empty() || filter.backend == driver.name();
    if (const auto device = find_in(driver, filter, any, left)) return *device;
  }
  throw NotFoundError("the " + std::string(driver.name()) + " driver has no device that matches \"" + excerpt(text) +
                      "\"");
}

namespace {

/// Adds one driver's devices, numbered as find() counts them: the driver's name counts all of its devices, a backend of
/// SYCL counts the devices that SYCL reaches by it.
void list_devices_of(const Driver& driver, const DriverRegistry& drivers, std::vector<NamedDevice>* all) {
  std::map<std::string, std::int64_t> counts;
  const std::string name(driver.name());
  for (const Device& device : devices_of(driver)) {
    DeviceInfo info = driver.info(device);
    const std::string rest = ":" + std::string(device_class_name(info.device_class)) + ":";
    const std::int64_t by_driver = counts[name + rest]++;
    std::string filter;
    // Names the device by a backend of SYCL, if that isn't a driver's name too. A backend that isn't in kSyclBackends,
    // or that SYCL doesn't tell, can't name a device.
    if (name == kSycl && among(kSyclBackends, info.backend) && !is_driver(drivers, info.backend)) {
      const std::string stem = info.backend + rest;
      filter = stem + std::to_string(counts[stem]++);
    } else if (is_backend_word(name)) {
      filter = name + rest + std::to_string(by_driver);
    }
    all->push_back({.info = std::move(info), .driver = name, .filter = std::move(filter)});
  }
}

}  // namespace

std::string filter_of(const DriverRegistry& drivers, const Device& device) {
  for (const std::string& name : drivers.names()) {
    const std::shared_ptr<Driver> driver = drivers.find(name);
    if (driver == nullptr || !driver->handles(device.type)) continue;
    std::vector<NamedDevice> its;
    list_devices_of(*driver, drivers, &its);
    for (NamedDevice& one : its) {
      if (one.info.device == device) return std::move(one.filter);
    }
  }
  return {};
}

std::vector<NamedDevice> list_devices(const DriverRegistry& drivers) {
  std::vector<NamedDevice> all;
  for (const std::string& name : names_in_order(drivers)) {
    if (const std::shared_ptr<Driver> driver = drivers.find(name)) list_devices_of(*driver, drivers, &all);
  }
  return all;
}

}  // namespace crossdock::device
