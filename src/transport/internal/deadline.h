#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/amounts.h"
#include "crossdock/core/error.h"
#include "transport/transport.h"

namespace crossdock::transport {

/// The deadline and the interrupt hook of one connect(). The hook must outlive this. `where` names the server in
/// errors. A negative `timeout_ms` means no deadline.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  Deadline(std::string where, int timeout_ms, const InterruptHook& interrupted)
      : where_(std::move(where)),
        timeout_ms_(timeout_ms),
        deadline_(Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0))),
        interrupted_(interrupted) {}

  /// Returns how many milliseconds to wait before the next call. Throws TimeoutError, InterruptedError.
  int slice() const {
    if (interrupted_ && interrupted_()) throw InterruptedError("connecting to " + where_ + " was interrupted");
    if (timeout_ms_ < 0) return kSliceMs;
    const std::int64_t left = left_ms();
    if (left <= 0) {
      throw TimeoutError(where_ + " didn't answer within " + in_seconds(std::chrono::milliseconds(timeout_ms_)) +
                         ": is it a Crossdock server?");
    }
    return static_cast<int>(std::min<std::int64_t>(left, kSliceMs));
  }
  /// Returns the time limit for the next address if `n` addresses are left to try. Empty: no limit but the system's
  /// own.
  std::optional<Clock::time_point> share(std::size_t n) const {
    if (timeout_ms_ < 0 || n <= 1) return std::nullopt;
    return Clock::now() + std::chrono::milliseconds(std::max<std::int64_t>(left_ms(), 0) / static_cast<int>(n));
  }
  /// Waits for `events`, at most for slice() milliseconds. Returns whether they occurred.
  bool wait(int socket, short events) const {
    pollfd ask{socket, events, 0};
    return ::poll(&ask, 1, slice()) > 0;
  }

 private:
  static constexpr int kSliceMs = 100;  // interval between calls of the interrupt hook

  std::int64_t left_ms() const {
    return std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
  }

  const std::string where_;
  const int timeout_ms_;
  const Clock::time_point deadline_;
  const InterruptHook& interrupted_;
};

}  // namespace crossdock::transport
