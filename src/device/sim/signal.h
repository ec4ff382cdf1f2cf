#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "crossdock/device/queue.h"
#include "crossdock/device/sim_event.h"
#include "point.h"

namespace crossdock::device::sim {

class World;

/// The native event: the C struct that other libraries see, and the point that it stands for. Thread-safe.
class Signal : public crossdock_sim_event {
 public:
  explicit Signal(std::shared_ptr<World> world) noexcept;
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  /// Returns the signal behind a native event if this library made it, else null.
  static Signal* from(crossdock_sim_event* native) noexcept;

  World& world() const noexcept { return *world_; }
  /// Sets the point. Call it once, before any other thread has the signal.
  void set(std::shared_ptr<Point> point) noexcept { point_ = std::move(point); }
  const std::shared_ptr<Point>& point() const noexcept { return point_; }
  /// Keeps the text of a failure for last_error().
  void note(const std::string& error) noexcept;

 private:
  static std::int32_t query_entry(crossdock_sim_event* self) noexcept;
  static std::int32_t wait_entry(crossdock_sim_event* self) noexcept;
  static const char* error_entry(crossdock_sim_event* self) noexcept;

  std::shared_ptr<World> world_;
  std::shared_ptr<Point> point_;
  std::mutex mutex_;                ///< Guards the texts.
  std::deque<std::string> errors_;  // no text moves while the event exists
};

/// Checks a native event of any library: magic number, version, size and functions. Returns it. Throws
/// InvalidArgumentError if one of them is wrong.
crossdock_sim_event* check_native(void* native);

}  // namespace crossdock::device::sim
