#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "crossdock/core/export.h"
#include "crossdock/core/impl_ptr.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

namespace crossdock::offload {

/// Finds queues by device, filter string or name. Every request for the same device gets the same queue, so that
/// independent packages put their work in one order and allocate in one context. Thread-safe.
class CROSSDOCK_EXPORT Queues {
 public:
  /// `drivers` must not be null. The queues that session::Runtime::queues() has are those that packages share.
  explicit Queues(std::shared_ptr<const device::DriverRegistry> drivers);
  ~Queues();
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  /// The drivers whose devices it looks through, valid as long as this object.
  const device::DriverRegistry& drivers() const noexcept { return *drivers_; }

  /// Returns the device's own queue, DriverRegistry::default_queue(). Throws as that function.
  device::Queue queue(const device::Device& device) const { return drivers_->default_queue(device); }
  /// Returns the own queue of the device that a filter string chooses (device/registry.h). Remembers the result for
  /// each text until a driver's devices change. Throws as device::select_device() and DriverRegistry::default_queue().
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
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

/// Keeps the current queue: a default for the process, and for each thread the queue that it chose for a scope. If all
/// packages of a program share one manager, one scope moves the work of all of them. A package with a manager of its
/// own chooses its queue separately from all others. Thread-safe. Must outlive its scopes.
///
/// Python's current queues are separate (crossdock.offload): they follow tasks as well as threads.
class CROSSDOCK_EXPORT QueueManager {
 public:
  /// `queues` must not be null: it finds the queues that are named by filter strings.
  explicit QueueManager(std::shared_ptr<const Queues> queues);
  ~QueueManager();
  QueueManager(const QueueManager&) = delete;
  QueueManager& operator=(const QueueManager&) = delete;

  /// What the constructor was given, valid as long as the manager.
  const Queues& queues() const noexcept { return *queues_; }

  /// Returns the queue of the calling thread's innermost scope, else default_queue().
  device::Queue current() const;
  /// Returns the default queue that was set, else Queues::default_queue(). It applies to every thread that chose no
  /// queue. Throws as Queues::default_queue().
  device::Queue default_queue() const;
  /// Sets the default queue. Nullopt unsets it.
  void set_default_queue(std::optional<device::Queue> queue);
  /// Sets the own queue of the device that a filter string chooses. Throws as Queues::queue(); then nothing has
  /// changed.
  void set_default_queue(std::string_view filter) { set_default_queue(queues_->queue(filter)); }

  /// Makes its queue current in the thread that creates it, as long as the scope lives. Scopes are destroyed in reverse
  /// order, in that thread.
  class CROSSDOCK_EXPORT Scope {
   public:
    /// Makes `queue` current for `manager`, which must outlive the scope. Other managers' current queues stay.
    Scope(const QueueManager& manager, device::Queue queue) noexcept;
    /// The same with the queue that a filter string chooses. Throws as Queues::queue(); then nothing has changed.
    Scope(const QueueManager& manager, std::string_view filter) : Scope(manager, manager.queues().queue(filter)) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

    /// The queue that the scope has made current.
    const device::Queue& queue() const noexcept { return queue_; }

   private:
    friend QueueManager;
    const QueueManager* manager_;
    device::Queue queue_;
    const Scope* outer_;  ///< The enclosing scope, of any manager.
  };

 private:
  std::shared_ptr<const Queues> queues_;
  struct Impl;
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::offload
