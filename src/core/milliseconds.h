#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

#include "crossdock/core/time_limit.h"

namespace crossdock {

/// How often a call that waits asks whether it is interrupted.
inline constexpr std::chrono::milliseconds kHookInterval{100};

/// Returns a duration as a number of milliseconds, as system calls take it: from 0 to the largest int.
inline int to_ms(std::chrono::milliseconds duration) noexcept {
  using Rep = std::chrono::milliseconds::rep;
  return static_cast<int>(std::clamp<Rep>(duration.count(), 0, std::numeric_limits<int>::max()));
}

/// Returns a limit as a number of milliseconds; -1 for no limit, as the layers below take it.
inline int to_ms(const TimeLimit& limit) noexcept { return limit ? to_ms(*limit) : -1; }

}  // namespace crossdock
