#include "crossdock/offload/queue_manager.h"

namespace crossdock::offload {
namespace {

/// Innermost scope of the calling thread, of any manager. There are few scopes, so a search for one manager takes a
/// step or two.
thread_local const QueueManager::Scope* innermost = nullptr;

}  // namespace

QueueManager::Scope::Scope(const QueueManager& manager, device::Queue queue) noexcept
    : manager_(&manager), queue_(std::move(queue)), outer_(std::exchange(innermost, this)) {}

QueueManager::Scope::~Scope() { innermost = outer_; }

device::Queue QueueManager::current() const {
  for (const Scope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    if (scope->manager_ == this) return scope->queue_;
  }
  return default_queue();
}

device::Queue QueueManager::default_queue() const {
  {
    const std::lock_guard lock(mutex_);
    if (default_) return *default_;
  }
  return queues_->default_queue();
}

void QueueManager::set_default_queue(std::optional<device::Queue> queue) {
  const std::lock_guard lock(mutex_);
  default_.swap(queue);  // `queue` now holds the old one, which is destroyed outside the lock
}

}  // namespace crossdock::offload
