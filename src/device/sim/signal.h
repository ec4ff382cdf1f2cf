#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "crossdock/device/event.h"
#include "crossdock/device/sim_event.h"
#include "point.h"

namespace crossdock::device::sim {

class World;

/// The native event: what others see of it, and the point that it stands for. Thread-safe.
class Signal : public crossdock_sim_event {
 public:
  explicit Signal(std::shared_ptr<World> world) noexcept;
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  /// The signal behind a native event, if this library made it; else null.
  static Signal* from(crossdock_sim_event* native) noexcept;

  World& world() const noexcept { return *world_; }
  /// Once, before anybody else has it.
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
  std::mutex mutex_;                ///< Of the texts.
  std::deque<std::string> errors_;  // none moves while the event is there
};

/// A native event of any library, checked: magic number, version, size, functions. Throws InvalidArgumentError.
crossdock_sim_event* check_native(void* native);

}  // namespace crossdock::device::sim
