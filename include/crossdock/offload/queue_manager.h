#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"
#include "crossdock/offload/queues.h"

namespace crossdock::offload {

/// Which queue is current: a default for the process, and for each thread what it chose for a scope. One manager for
/// all is the global queue manager of the offloading text (way 4); a package that keeps one of its own manages its own
/// queue, apart from everyone else's (way 2). Thread-safe; must outlive its scopes.
///
/// Python's current queues are its own (crossdock.offload): they follow tasks as well as threads.
class CROSSDOCK_EXPORT QueueManager {
 public:
  explicit QueueManager(std::shared_ptr<const Queues> queues) : queues_(std::move(queues)) {}
  QueueManager(const QueueManager&) = delete;
  QueueManager& operator=(const QueueManager&) = delete;

  const Queues& queues() const noexcept { return *queues_; }

  /// The queue of the calling thread's innermost scope; else the default one.
  device::Queue current() const;
  /// The one that was set, for every thread that chose none; else Queues::default_queue(). Throws as that.
  device::Queue default_queue() const;
  /// Nothing: as if none had been set.
  void set_default_queue(std::optional<device::Queue> queue);
  void set_default_queue(std::string_view filter) { set_default_queue(queues_->queue(filter)); }

  /// While it lives, its queue is current in the thread that made it. Scopes end in the reverse order, in that thread.
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
    const Scope* outer_;  ///< Of any manager.
  };

 private:
  std::shared_ptr<const Queues> queues_;
  mutable std::mutex mutex_;
  std::optional<device::Queue> default_;
};

}  // namespace crossdock::offload
