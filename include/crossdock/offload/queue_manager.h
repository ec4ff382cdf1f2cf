#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"
#include "crossdock/offload/queues.h"

namespace crossdock::offload {

/// Keeps the current queue: a default for the process, and for each thread the queue that it chose for a scope. One
/// manager for all packages is the global queue manager of the offloading text (way 4). A package with a manager of its
/// own manages its own queue, separate from all others (way 2). Thread-safe. Must outlive its scopes.
///
/// Python's current queues are separate (crossdock.offload): they follow tasks as well as threads.
class CROSSDOCK_EXPORT QueueManager {
 public:
  explicit QueueManager(std::shared_ptr<const Queues> queues) : queues_(std::move(queues)) {}
  QueueManager(const QueueManager&) = delete;
  QueueManager& operator=(const QueueManager&) = delete;

  const Queues& queues() const noexcept { return *queues_; }

  /// Returns the queue of the calling thread's innermost scope, else default_queue().
  device::Queue current() const;
  /// Returns the default queue that was set, else Queues::default_queue(). It applies to every thread that chose no
  /// queue. Throws as Queues::default_queue().
  device::Queue default_queue() const;
  /// Sets the default queue. Nullopt unsets it.
  void set_default_queue(std::optional<device::Queue> queue);
  void set_default_queue(std::string_view filter) { set_default_queue(queues_->queue(filter)); }

  /// Makes its queue current in the thread that creates it, as long as the scope lives. Scopes are destroyed in reverse
  /// order, in that thread.
  class CROSSDOCK_EXPORT Scope {
   public:
    Scope(const QueueManager& manager, device::Queue queue) noexcept;
    Scope(const QueueManager& manager, std::string_view filter) : Scope(manager, manager.queues().queue(filter)) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

    const device::Queue& queue() const noexcept { return queue_; }

   private:
    friend QueueManager;
    const QueueManager* manager_;
    device::Queue queue_;
    const Scope* outer_;  ///< The enclosing scope, of any manager.
  };

 private:
  std::shared_ptr<const Queues> queues_;
  mutable std::mutex mutex_;
  std::optional<device::Queue> default_;
};

}  // namespace crossdock::offload
