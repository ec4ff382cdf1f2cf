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
#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"
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
  std::shared_ptr<const Error> failure;  ///< If not null, the work fails with this and copies nothing.
};

/// Makes the work behind it start after an event. `event` keeps the native event alive.
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
  Clock clock;               ///< The work that is ordered before.
  std::shared_ptr<World> world;
  std::shared_ptr<const Error> failure;  ///< If not null, the work fails with this, but still frees the memory.
};

struct Work {
  std::variant<CopyWork, WaitWork, RecordWork, FreeWork> what;
  std::chrono::steady_clock::time_point due;
};

/// A queue's work and the thread that does it. The thread runs from the first work until the last holder of the queue
/// is gone and all work is done. It is detached, since the end of a queue waits for nothing. It owns all objects that
/// it uses.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  WorkQueue(Device device, std::shared_ptr<Timeline> timeline) : device_(device), timeline_(std::move(timeline)) {}

  const Device& device() const noexcept { return device_; }
  const std::shared_ptr<Timeline>& timeline() const noexcept { return timeline_; }
  /// The work that is ordered before the next work. Hold the simulation's lock to use it.
  Clock clock;

  /// Starts the thread if there is none yet. Throws ResourceError.
  void start();
  /// Adds work. Call start() before. Work is done in the order of these calls. On a throw the caller keeps `work`.
  void push(Work&& work);
  /// Returns true if there is no work. Then an event is complete as soon as it is recorded.
  bool idle() const;
  /// Ends the thread once all work is done. Call it when the last holder of the queue is gone.
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
