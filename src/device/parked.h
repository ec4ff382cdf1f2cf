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
  /// How a driver looks at events. Neither may throw; work that failed is over. Called with no lock held.
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

  /// Keeps `owner` until the work before `done`, an event of `queue`, is over. Where there is no memory to note that,
  /// waits for it.
  void park(std::shared_ptr<void> owner, Event done, const Queue& queue);
  /// Drops those whose work is over. Of each queue the oldest is asked about first, and once one isn't over, no more:
  /// a look costs a question for each queue, however much waits. One load where nothing is parked; leaves it to the
  /// other thread where two look at once.
  void sweep() noexcept;

 private:
  // Lists, so that moving an entry allocates nothing.
  struct Entry {
    Event done;
    std::shared_ptr<void> owner;
    std::unique_ptr<Entry> next;
  };
  /// What waits for one queue, the oldest first. Never empty.
  struct Line {
    const void* queue;
    std::unique_ptr<Entry> first;
    Entry* last;
    std::unique_ptr<Line> next;
  };
  static void drop(std::unique_ptr<Entry> entries) noexcept;
  /// Moves those that are over from `line` to `over`.
  void take_over(Line* line, std::unique_ptr<Entry>* over) const noexcept;
  /// Puts lines back before what was parked meanwhile. Under the lock.
  void put_back(std::unique_ptr<Line> lines) noexcept;

  Watch watch_;
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  bool sweeping_ = false;
  std::unique_ptr<Line> lines_;
};

}  // namespace crossdock::device
