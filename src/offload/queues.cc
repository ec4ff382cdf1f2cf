#include "crossdock/offload/queue_manager.h"

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::offload {

using device::Queue;

struct Queues::Impl {
  std::mutex mutex;
  std::uint64_t version = 0;  ///< Version of the devices that `chosen` is valid for.
  std::map<std::string, Queue, std::less<>> chosen;
  std::map<std::pair<std::string, std::string>, Queue> named;  ///< By device and name.
};

Queues::Queues(std::shared_ptr<const device::DriverRegistry> drivers)
    : drivers_(std::move(drivers)), impl_(std::make_unique<Impl>()) {}
Queues::~Queues() = default;

Queue Queues::queue(std::string_view filter) const {
  const std::uint64_t version = drivers_->devices_version();
  {
    const std::lock_guard lock(impl_->mutex);
    if (version != impl_->version) {
      impl_->chosen.clear();
      impl_->version = version;
    }
    if (const auto found = impl_->chosen.find(filter); found != impl_->chosen.end()) return found->second;
  }
  // Runs without the lock, because drivers are started here.
  Queue queue = drivers_->default_queue(device::select_device(*drivers_, filter));
  const std::lock_guard lock(impl_->mutex);
  if (version == impl_->version) impl_->chosen.try_emplace(std::string(filter), queue);
  return queue;
}

Queue Queues::queue(const device::Device& device, const std::string& name) const {
  if (name.empty()) throw InvalidArgumentError("the queue name is empty; use queue(device) for the device's own queue");
  const std::shared_ptr<device::Context> context = drivers_->context(device);
  const std::pair key(to_string(context->device()), name);
  {
    const std::lock_guard lock(impl_->mutex);
    if (const auto found = impl_->named.find(key); found != impl_->named.end()) return found->second;
  }
  const Queue made = context->make_queue();
  const std::lock_guard lock(impl_->mutex);
  return impl_->named.try_emplace(key, made).first->second;
}

std::string Queues::name_of(const Queue& queue) const {
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [key, named] : impl_->named) {
    if (named == queue) return key.second;
  }
  return {};
}

}  // namespace crossdock::offload
