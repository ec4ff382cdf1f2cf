#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "crossdock/core/export.h"
#include "crossdock/device/filter.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

namespace crossdock::offload {

/// Finds queues by device, filter string or name. Every request for the same device gets the same queue, so that
/// independent packages put their work in one order and allocate in one context. Thread-safe.
class CROSSDOCK_EXPORT Queues {
 public:
  explicit Queues(std::shared_ptr<const device::DriverRegistry> drivers) : drivers_(std::move(drivers)) {}

  const device::DriverRegistry& drivers() const noexcept { return *drivers_; }

  /// Returns the device's own queue, DriverRegistry::default_queue(). Throws as that function.
  device::Queue queue(const device::Device& device) const { return drivers_->default_queue(device); }
  /// Returns the own queue of the device that a filter string chooses (device/filter.h). Remembers the result for each
  /// text until a driver's devices change. Throws as device::select_device() and DriverRegistry::default_queue().
  device::Queue queue(std::string_view filter) const;
  /// Returns another queue of the device, by name. It is made on the first request for this name. Throws as
  /// DriverRegistry::context() and Context::make_queue().
  device::Queue queue(const device::Device& device, const std::string& name) const;
  /// Returns the name of a queue that was made by name; empty for any other queue.
  std::string name_of(const device::Queue& queue) const;
  /// Returns the queue for work without a chosen queue: that of device::kDefaultFilter.
  device::Queue default_queue() const { return queue(device::kDefaultFilter); }

 private:
  std::shared_ptr<const device::DriverRegistry> drivers_;
  mutable std::mutex mutex_;
  mutable std::uint64_t version_ = 0;  ///< Version of the devices that `chosen_` is valid for.
  mutable std::map<std::string, device::Queue, std::less<>> chosen_;
  mutable std::map<std::pair<std::string, std::string>, device::Queue> named_;  ///< By device and name.
};

}  // namespace crossdock::offload
