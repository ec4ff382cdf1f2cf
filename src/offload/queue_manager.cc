#include "crossdock/offload/queue_manager.h"

#include <mutex>
#include <utility>

namespace crossdock::offload {
namespace {

/// Innermost scope of the calling thread, of any manager. There are few scopes, so a search for one manager takes a
/// step or two.
thread_local const QueueManager::Scope* innermost = nullptr;

}  // namespace

struct QueueManager::Impl {
  std::mutex mutex;
  std::optional<device::Queue> chosen;  ///< What set_default_queue() was given.
};

QueueManager::QueueManager(std::shared_ptr<const Queues> queues)
    : queues_(std::move(queues)), impl_(std::make_unique<Impl>()) {}
QueueManager::~QueueManager() = default;

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
    const std::lock_guard lock(impl_->mutex);
    if (impl_->chosen) return *impl_->chosen;
  }
  return queues_->default_queue();
}

void QueueManager::set_default_queue(std::optional<device::Queue> queue) {
  const std::lock_guard lock(impl_->mutex);
  impl_->chosen.swap(queue);  // `queue` now holds the old one, which is destroyed outside the lock
}

}  // namespace crossdock::offload
