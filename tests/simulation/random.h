#pragma once

#include <cstdint>

namespace crossdock::simulation {

/// SplitMix64: the same numbers from the same seed on every machine and with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// 0 to bound - 1.
  std::uint32_t below(std::uint64_t bound) noexcept { return static_cast<std::uint32_t>(next() % bound); }
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }
  /// An independent one: what one actor draws doesn't shift what another does.
  Random fork() noexcept { return Random(next()); }

 private:
  std::uint64_t state_;
};

}  // namespace crossdock::simulation
