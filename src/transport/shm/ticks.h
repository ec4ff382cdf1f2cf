#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <chrono>
#endif

namespace crossdock::transport::shm {

/// A clock for "about a millisecond", cheap enough to read in a spinning loop. Only differences have a meaning.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Between a third of a millisecond and a whole one, on processors of 1 to 6 GHz.
inline constexpr std::uint64_t kAboutAMillisecond = 1 << 20;

}  // namespace crossdock::transport::shm
