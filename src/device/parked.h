#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "crossdock/device/event.h"

namespace crossdock::device {

/// Owners of memory that wait for a queue's work before they are dropped: for drivers whose own callbacks may not call
/// the driver, as deleters do, or whose way of giving memory back waits. They are dropped by whoever looks next.
/// Thread-safe.
class Parked {
 public:
  /// How a driver looks at events. Neither may throw; work that failed is over.
  struct Watch {
    std::function<bool(const Event&)> over;  ///< Never waits.
    std::function<void(const Event&)> wait;
    std::function<bool()> in_child;  ///< True where the driver must not be called: after a fork.
  };

  explicit Parked(Watch watch) : watch_(std::move(watch)) {}
  /// Waits for what is still parked.
  ~Parked();
  Parked(const Parked&) = delete;
  Parked& operator=(const Parked&) = delete;

  /// Keeps `owner` until the work before `done` is over. Where there is no memory to note that, waits for it.
  void park(std::shared_ptr<void> owner, Event done);
  /// Drops those whose work is over. One load where there are none.
  void sweep() noexcept;

 private:
  /// A list, so that moving an entry allocates nothing.
  struct Entry {
    Event done;
    std::shared_ptr<void> owner;
    std::unique_ptr<Entry> next;
  };
  static void drop(std::unique_ptr<Entry> entries) noexcept;

  Watch watch_;
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::unique_ptr<Entry> entries_;  ///< The newest first.
};

}  // namespace crossdock::device
