#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace crossdock::bench {

/// Nanoseconds of CLOCK_MONOTONIC, which is one clock for all processes of a machine.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Durations, in memory that is there before the first is taken: adding one must not disturb what is measured.
class Samples {
 public:
  explicit Samples(std::size_t capacity) : values_(capacity) {}
  void add(std::int64_t ns) noexcept {
    if (n_ < values_.size()) values_[n_++] = ns;
  }
  std::size_t size() const noexcept { return n_; }

  /// `"NAME":{"n":…,"stretch":…,"p50":…,"p90":…,"p99":…,"min":…,"max":…,"mean":…}`, in nanoseconds; sorts the samples.
  /// "stretch" is what a sample costs in a typical stretch of the run: the median, over stretches of up to 256 samples
  /// in a row, of a stretch's mean. A stream that comes in bursts has a low p50 and pays between them; here it shows.
  std::string json(const char* name);

 private:
  double stretch() const;

  std::vector<std::int64_t> values_;
  std::size_t n_ = 0;
};

/// What a process holds, from /proc. Throws SystemError where it can't be read.
struct ProcessMemory {
  std::int64_t rss_kib = 0;
  std::int64_t descriptors = 0;
};
ProcessMemory memory_of(const std::string& pid);

}  // namespace crossdock::bench
