#include "crossdock/offload/queue_manager.h"

#include "crossdock/core/error.h"

namespace crossdock::offload {

using device::Queue;

Queue Queues::queue(std::string_view filter) const {
  const std::uint64_t version = drivers_->devices_version();
  {
    const std::lock_guard lock(mutex_);
    if (version != version_) {
      chosen_.clear();
      version_ = version;
    }
    if (const auto found = chosen_.find(filter); found != chosen_.end()) return found->second;
  }
  // Runs without the lock, because drivers are started here.
  Queue queue = drivers_->default_queue(device::select_device(*drivers_, filter));
  const std::lock_guard lock(mutex_);
  if (version == version_) chosen_.try_emplace(std::string(filter), queue);
  return queue;
}

Queue Queues::queue(const device::Device& device, const std::string& name) const {
  if (name.empty()) throw InvalidArgumentError("the queue name is empty; use queue(device) for the device's own queue");
  const std::shared_ptr<device::Context> context = drivers_->context(device);
  const std::pair key(to_string(context->device()), name);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = named_.find(key); found != named_.end()) return found->second;
  }
  const Queue made = context->make_queue();
  const std::lock_guard lock(mutex_);
  return named_.try_emplace(key, made).first->second;
}

std::string Queues::name_of(const Queue& queue) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, named] : named_) {
    if (named == queue) return key.second;
  }
  return {};
}

}  // namespace crossdock::offload
