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

/// What a registry is made with, by programs that share devices with other libraries.
struct DriverOptions {
  std::vector<std::string> sycl_libraries{};  ///< Where to look for dpctl's library first (sycl.h).
  /// Returns a device's default queue, called once per device, to agree on it with another library. Empty:
  /// the driver makes one. Called without a lock, by several threads at once if need be; what
  /// it throws is thrown on.
  std::function<std::optional<Queue>(const Device&)> default_queue{};
};

/// What came of looking for one driver.
struct DriverReport {
  std::string name;
  bool found = false;
  std::string version;             ///< Empty if not found.
  std::vector<Device> devices;     ///< At the time of asking; empty if not found, or if the machine has none.
  std::vector<std::string> tried;  ///< A line for each library tried in vain, with the reason.
};

/// The drivers of a process's choosing: built once, then passed to whoever needs it, never global. Adding is for one
/// thread; a const registry is thread-safe.
class CROSSDOCK_EXPORT DriverRegistry {
 public:
  explicit DriverRegistry(DriverOptions options = {});
  ~DriverRegistry();

  /// Takes a driver and reports it as found, with what was tried before. Throws InvalidArgumentError if its name is
  /// taken.
  void add(std::shared_ptr<Driver> driver, std::vector<std::string> tried = {});
  /// Notes a driver that isn't there.
  void add_missing(std::string name, std::vector<std::string> tried);

  /// Null if there is none of this name.
  std::shared_ptr<Driver> find(std::string_view name) const noexcept;
  /// Of all drivers looked for, in that order, those that aren't there too.
  std::vector<std::string> names() const;
  /// Changes whenever the devices of a driver do: what was chosen among them may be chosen anew.
  std::uint64_t devices_version() const noexcept;
  /// The driver for memory of this type. Throws UnsupportedError, which says which drivers there are and what was
  /// tried.
  std::shared_ptr<Driver> for_type(DeviceType type) const;
  /// Of all drivers looked for, in that order.
  std::vector<DriverReport> reports() const;

  /// The device, or that whose queues work on such memory (Driver::owning_device), opened in its usual context by its
  /// driver the first time, and shared from then on; what can't be opened is tried again by the next call. Throws as
  /// for_type() and Driver::open().
  std::shared_ptr<Context> context(const Device& device) const;
  /// The same; null where that throws UnsupportedError or NotFoundError: nobody here knows the device.
  std::shared_ptr<Context> context_or_null(const Device& device) const;
  /// A context of this driver that was opened here before, whichever; null if none was. Opens nothing, and doesn't wait
  /// for what others open now.
  std::shared_ptr<Context> opened_context(const Driver& driver) const noexcept;
  /// The device's queue on which work runs where none is named: made once, with context(), or by
  /// DriverOptions::default_queue. Throws as those and Context::make_queue().
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

/// A driver's devices, as far as this process can use them: in one that was forked after the driver started there are
/// none, where Driver::devices() throws ForkError. `why`, if it isn't null: why there are none, if there are none.
CROSSDOCK_EXPORT std::vector<Device> devices_of(const Driver& driver, std::string* why = nullptr);

/// A registry of every driver that this version has.
CROSSDOCK_EXPORT std::shared_ptr<const DriverRegistry> make_default_registry(const DriverOptions& options = {});

}  // namespace crossdock::device
