#include "crossdock/device/registry.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/device/sycl.h"
#include "device/cuda.h"
#include "device/sim.h"
#include "host/host_driver.h"

namespace crossdock::device {

namespace {

bool has_device(const Driver& driver, const Device& device) {
  const std::vector<Device> devices = driver.devices();
  return std::ranges::find(devices, driver.owning_device(device)) != devices.end();
}

}  // namespace

struct DriverRegistry::Impl {
  /// One driver that was looked for; `driver` is null if it wasn't found.
  struct Entry {
    std::string name;
    std::shared_ptr<Driver> driver;
    std::vector<std::string> tried;
  };

  /// One device. It has a lock of its own, so that a device that takes long to open delays only callers that want the
  /// same device.
  struct Opened {
    std::mutex mutex;
    std::shared_ptr<Context> context;
    std::unique_ptr<Queue> queue;
    /// Returns the context, opened if it isn't yet. Call it with the lock held.
    const std::shared_ptr<Context>& open(const DriverRegistry& registry, const Device& device) {
      if (context == nullptr) {
        const std::shared_ptr<Driver> driver = registry.for_device(device);
        context = driver->open(driver->owning_device(device));
      }
      return context;
    }
  };

  /// Throws InvalidArgumentError if a driver has this name already.
  void check_name_free(std::string_view name) const {
    if (std::ranges::find(entries, name, &Entry::name) == entries.end()) return;
    throw InvalidArgumentError("a driver named \"" + excerpt(name) + "\" was already added");
  }
  /// Returns what is kept of the device whose queues work on `memory`.
  std::shared_ptr<Opened> opened_for(const DriverRegistry& registry, const Device& memory) {
    const Device device = registry.for_type(memory.type)->owning_device(memory);
    const std::lock_guard lock(mutex);
    std::shared_ptr<Opened>& entry = opened[device];
    if (entry == nullptr) entry = std::make_shared<Opened>();
    return entry;
  }

  DriverOptions options;
  std::vector<Entry> entries;
  std::mutex mutex;
  std::unordered_map<Device, std::shared_ptr<Opened>> opened;
};

DriverRegistry::DriverRegistry(DriverOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}
DriverRegistry::~DriverRegistry() = default;

void DriverRegistry::add(std::shared_ptr<Driver> driver, std::vector<std::string> tried) {
  if (driver == nullptr) throw InvalidArgumentError("no driver was given to add");
  impl_->check_name_free(driver->name());
  std::string name(driver->name());
  impl_->entries.push_back({.name = std::move(name), .driver = std::move(driver), .tried = std::move(tried)});
}

void DriverRegistry::add_missing(std::string name, std::vector<std::string> tried) {
  impl_->check_name_free(name);
  impl_->entries.push_back({.name = std::move(name), .driver = nullptr, .tried = std::move(tried)});
}

std::shared_ptr<Driver> DriverRegistry::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(impl_->entries, name, &Impl::Entry::name);
  return found == impl_->entries.end() ? nullptr : found->driver;
}

std::vector<std::string> DriverRegistry::names() const {
  std::vector<std::string> names;
  names.reserve(impl_->entries.size());
  for (const Impl::Entry& entry : impl_->entries) names.push_back(entry.name);
  return names;
}

std::uint64_t DriverRegistry::devices_version() const noexcept {
  std::uint64_t version = 0;
  for (const Impl::Entry& entry : impl_->entries) {
    if (entry.driver != nullptr) version += entry.driver->devices_version();
  }
  return version;
}

std::shared_ptr<Driver> DriverRegistry::for_type(DeviceType type, std::string_view otherwise) const {
  for (const Impl::Entry& entry : impl_->entries) {
    if (entry.driver != nullptr && entry.driver->handles(type)) return entry.driver;
  }
  const std::string_view name = device_type_name(type);
  std::string what = "no driver for memory of ";
  what += name.empty() ? "device type " + std::to_string(static_cast<std::int32_t>(type)) : std::string(name);
  what += "; drivers:";
  for (const Impl::Entry& entry : impl_->entries) {
    what += " " + entry.name + (entry.driver != nullptr ? " (found, for other devices)" : " (not found)");
    for (const std::string& line : entry.tried) what += ", tried " + line;
    what += ";";
  }
  if (impl_->entries.empty()) what += " none;";
  what += " install the missing library, or ";
  what += otherwise;
  throw UnsupportedError(what);
}

std::shared_ptr<Driver> DriverRegistry::for_device(const Device& device) const {
  std::shared_ptr<Driver> first = for_type(device.type);
  for (const Impl::Entry& entry : impl_->entries) {
    if (entry.driver == nullptr || entry.driver == first || !entry.driver->handles(device.type)) continue;
    if (has_device(*first, device)) break;
    if (has_device(*entry.driver, device)) return entry.driver;
  }
  return first;
}

std::vector<Device> devices_of(const Driver& driver, std::string* why) {
  try {
    std::vector<Device> devices = driver.devices();
    if (devices.empty() && why != nullptr) *why = driver.why_no_devices();
    return devices;
  } catch (const ForkError& error) {
    if (why != nullptr) *why = error.what();
    return {};
  }
}

std::vector<DriverReport> DriverRegistry::reports() const {
  std::vector<DriverReport> reports;
  reports.reserve(impl_->entries.size());
  for (const Impl::Entry& entry : impl_->entries) {
    DriverReport report{
        .name = entry.name, .found = entry.driver != nullptr, .version = {}, .devices = {}, .tried = entry.tried};
    if (entry.driver != nullptr) {
      report.version = entry.driver->version();
      std::string why;
      report.devices = devices_of(*entry.driver, &why);
      if (!why.empty()) report.tried.push_back(std::move(why));
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::shared_ptr<Context> DriverRegistry::context(const Device& device) const {
  const std::shared_ptr<Impl::Opened> entry = impl_->opened_for(*this, device);
  const std::lock_guard lock(entry->mutex);
  return entry->open(*this, device);
}

std::shared_ptr<Context> DriverRegistry::context(const Device& device, NativeContext native_context) const {
  const std::shared_ptr<Driver> driver = native_context ? for_device(device) : nullptr;
  if (driver == nullptr || !driver->one_context_each()) return context(device);
  return driver->open(driver->owning_device(device), native_context);
}

std::shared_ptr<Context> DriverRegistry::context_or_null(const Device& device) const {
  try {
    return context(device);
  } catch (const UnsupportedError&) {
    return nullptr;
  } catch (const NotFoundError&) {
    return nullptr;
  }
}

std::shared_ptr<Context> DriverRegistry::opened_context(DeviceType type) const noexcept {
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [device, entry] : impl_->opened) {
    // Never throws: a driver was found when the device was opened.
    if (!for_type(device.type)->handles(type)) continue;
    // A thread that opens the device now holds the lock, and may take long.
    const std::unique_lock looking(entry->mutex, std::try_to_lock);
    if (looking.owns_lock() && entry->context != nullptr) return entry->context;
  }
  return nullptr;
}

Queue DriverRegistry::default_queue(const Device& device) const {
  const std::shared_ptr<Impl::Opened> entry = impl_->opened_for(*this, device);
  std::shared_ptr<Context> context;
  {
    const std::lock_guard lock(entry->mutex);
    if (entry->queue != nullptr) return *entry->queue;
    context = entry->open(*this, device);
  }
  // Without the lock, since default_queue may call another library.
  std::optional<Queue> queue;
  if (impl_->options.default_queue) queue = impl_->options.default_queue(context->device());
  if (queue && queue->device() != context->device()) {
    throw InvalidArgumentError("DriverOptions::default_queue gave a queue of " + to_string(queue->device()) + " for " +
                               to_string(context->device()));
  }
  if (!queue) queue = context->make_queue();
  const std::lock_guard lock(entry->mutex);
  if (entry->queue == nullptr) entry->queue = std::make_unique<Queue>(*queue);
  return *entry->queue;
}

Queue DriverRegistry::queue_in(const Device& device, NativeContext native_context) const {
  if (!native_context) return default_queue(device);
  const std::shared_ptr<Driver> driver = for_device(device);
  return driver->queue_in({driver->owning_device(device), native_context});
}

std::shared_ptr<const DriverRegistry> make_default_registry(const DriverOptions& options) {
  auto registry = std::make_shared<DriverRegistry>(options);
  const auto add = [&registry](const char* name, std::shared_ptr<Driver> driver, std::vector<std::string> tried) {
    if (driver != nullptr) {
      registry->add(std::move(driver), std::move(tried));
    } else {
      registry->add_missing(name, std::move(tried));
    }
  };
  registry->add(make_host_driver());
  std::vector<std::string> tried;
  std::shared_ptr<Driver> cuda = make_cuda_driver(cuda_library_candidates(), &tried);
  add("cuda", std::move(cuda), std::exchange(tried, {}));
  std::shared_ptr<Driver> sycl = make_sycl_driver(sycl_library_candidates(options.sycl_libraries), &tried);
  add("sycl", std::move(sycl), std::exchange(tried, {}));
  // It has no devices until a test asks for some.
  registry->add(make_sim_driver({.devices = 0}));
  return registry;
}

}  // namespace crossdock::device
