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

/// Queues by what names them: whoever asks for the same device gets the same queue, so that packages that never heard
/// of each other put their work in one order and allocate in one context. Thread-safe.
class CROSSDOCK_EXPORT Queues {
 public:
  explicit Queues(std::shared_ptr<const device::DriverRegistry> drivers) : drivers_(std::move(drivers)) {}

  const device::DriverRegistry& drivers() const noexcept { return *drivers_; }

  /// The device's own queue, DriverRegistry::default_queue(). Throws as that.
  device::Queue queue(const device::Device& device) const { return drivers_->default_queue(device); }
  /// The own queue of the device that a filter string chooses (device/filter.h). Texts are remembered until a driver's
  /// devices change. Throws as device::select_device() and DriverRegistry::default_queue().
  device::Queue queue(std::string_view filter) const;
  /// Another queue of the device, made the first time that anybody asks for this name. Throws as
  /// DriverRegistry::context() and Context::make_queue().
  device::Queue queue(const device::Device& device, const std::string& name) const;
  /// What such a queue was asked for as; empty for any other.
  std::string name_of(const device::Queue& queue) const;
  /// Where work runs where nobody said anything: that of device::kDefaultFilter.
  device::Queue default_queue() const { return queue(device::kDefaultFilter); }

 private:
  std::shared_ptr<const device::DriverRegistry> drivers_;
  mutable std::mutex mutex_;
  mutable std::uint64_t version_ = 0;  ///< Of the devices among which `chosen_` was chosen.
  mutable std::map<std::string, device::Queue, std::less<>> chosen_;
  mutable std::map<std::pair<std::string, std::string>, device::Queue> named_;  ///< By device and name.
};

}  // namespace crossdock::offload
