#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "crossdock/core/log.h"

namespace crossdock {

/// The receivers of the log lines of a foreign library, which doesn't say whose a line is. Lines that nobody receives
/// are dropped. Make it with static storage and never destroy it: the library may log while the process ends.
/// Thread-safe.
class LogSinks {
 public:
  /// Adds a receiver. `log` is called on any thread, also on a thread of the library's own, which may hold locks of the
  /// library: it must call nothing of it. Dropping the result ends it; a call on another thread may still be under way.
  std::shared_ptr<const void> add(LogCallback log);
  /// Passes a line on to all receivers. An exception of theirs ends there.
  void line(LogLevel level, std::string_view text) noexcept;

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const LogCallback>> sinks_;
};

}  // namespace crossdock
