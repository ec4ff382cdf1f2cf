#pragma once

#include <chrono>
#include <cstdint>

namespace crossdock {

/// Returns the time of std::chrono::steady_clock, in nanoseconds.
inline std::int64_t now_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace crossdock
