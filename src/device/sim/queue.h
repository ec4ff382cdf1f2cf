#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <variant>

#include "clock.h"
#include "crossdock/device/buffer.h"
#include "crossdock/device/event.h"
#include "memory.h"
#include "signal.h"

namespace crossdock::device::sim {

class World;

struct CopyWork {
  std::byte* to;
  const std::byte* from;
  std::uint64_t size;
  std::shared_ptr<Block> keep_to;  ///< Null for host memory.
  std::shared_ptr<Block> keep_from;
  std::shared_ptr<const Error> failure;  ///< Fails with this, and copies nothing.
};

/// Work from here on starts after an event. `event` keeps the native one.
struct WaitWork {
  Event event;
  std::shared_ptr<Point> point;  ///< Null for an event of another library.
  crossdock_sim_event* other = nullptr;
};

struct RecordWork {
  Event event;
  std::shared_ptr<Point> point;
};

struct FreeWork {
  Buffer buffer;
  std::weak_ptr<View> view;  ///< The allocation; empty for memory that was adopted.
  Clock clock;               ///< What is ordered before.
  std::shared_ptr<World> world;
  std::shared_ptr<const Error> failure;  ///< It is freed all the same.
};

struct Work {
  std::variant<CopyWork, WaitWork, RecordWork, FreeWork> what;
  std::chrono::steady_clock::time_point due;
};

/// A queue's work and the thread that does it: from its first work until nobody holds the queue and all is done. The
/// thread is detached, since a queue's end waits for nothing; it owns what it works on.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  WorkQueue(Device device, std::shared_ptr<Timeline> timeline) : device_(device), timeline_(std::move(timeline)) {}

  const Device& device() const noexcept { return device_; }
  const std::shared_ptr<Timeline>& timeline() const noexcept { return timeline_; }
  /// What is ordered before the next work; for who holds the simulation's lock.
  Clock clock;

  /// Makes sure that there is a thread. Throws ResourceError.
  void start();
  /// After start(). Work is done in the order of these calls. On a throw it is the caller's as before.
  void push(Work&& work);
  /// True if there is no work: then an event is complete as soon as it is recorded.
  bool idle() const;
  /// Nobody holds the queue any more.
  void close() noexcept;

 private:
  void run() noexcept;
  void perform(Work& work);

  const Device device_;
  const std::shared_ptr<Timeline> timeline_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  bool started_ = false;
  bool busy_ = false;
  bool closed_ = false;
};

}  // namespace crossdock::device::sim
