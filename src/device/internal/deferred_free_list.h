#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <tuple>

#include "crossdock/device/queue.h"

namespace crossdock::device {

/// Keeps owners of memory until a queue has finished its work on that memory. For drivers whose event callbacks must
/// not call the driver (a deleter would), or whose free function blocks. reclaim() drops the owners that are due.
/// Thread-safe.
class DeferredFreeList {
 public:
  /// The driver's functions for events. They don't throw, count failed work as over, and are called without a lock.
  struct Watch {
    std::function<bool(const Event&)> over;  ///< Doesn't wait, except for work that seems to have failed.
    std::function<bool(const Event&)> wait;  ///< Returns false if it couldn't wait.
    std::function<bool()> in_child;          ///< True where the driver must not be called: after a fork.
  };

  explicit DeferredFreeList(Watch watch) : watch_(std::move(watch)) {}
  /// Waits for the work of every owner in the list. Leaks the owners whose work it can't wait for.
  ~DeferredFreeList();
  DeferredFreeList(const DeferredFreeList&) = delete;
  DeferredFreeList& operator=(const DeferredFreeList&) = delete;

  /// Keeps `owner` until the work before `done`, an event of `queue`, is over. Waits for it if memory runs out.
  void add(std::shared_ptr<void> owner, Event done, const Queue& queue);
  /// Drops the owners whose work is over. Asks the oldest event of each queue first and stops at the first one that is
  /// pending: the cost is one query per queue, not per owner. Costs one load if the list is empty. Returns at once if
  /// another thread is reclaiming.
  void reclaim() noexcept;

 private:
  // Lists, so that moving an entry allocates nothing.
  struct Entry {
    Event done;
    std::shared_ptr<void> owner;
    std::unique_ptr<Entry> next;
  };
  /// Names a queue without keeping it: its device, its native context and its handle.
  using Key = std::tuple<Device, const void*, const void*>;
  /// The owners of one queue, the oldest first. Never empty.
  struct PerQueue {
    Key queue;
    std::unique_ptr<Entry> first;
    Entry* last;
    std::unique_ptr<PerQueue> next;
  };
  static void drop(std::unique_ptr<Entry> entries) noexcept;
  /// Moves the entries whose work is over of `queue` to `finished`.
  void take_finished(PerQueue* queue, std::unique_ptr<Entry>* finished) const noexcept;
  /// Puts the queues back, before the entries added meanwhile. Call with the lock held.
  void put_back(std::unique_ptr<PerQueue> queues) noexcept;

  Watch watch_;
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  bool reclaiming_ = false;
  std::unique_ptr<PerQueue> queues_;
};

}  // namespace crossdock::device
