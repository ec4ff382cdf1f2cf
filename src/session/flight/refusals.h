#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>

#include "crossdock/core/log.h"

namespace crossdock::session {

/// Logs the callers of a Flight server that are refused: 20 in 10 s at most, since whoever tries tokens or passwords
/// must not fill the log. The next line says how many were left out. Thread-safe.
class Refusals {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kMost = 20;
  static constexpr std::chrono::seconds kTime{10};

  explicit Refusals(const LogCallback& log) : log_(log) {}
  void log(const std::string& peer, const std::exception& why, Clock::time_point now = Clock::now()) noexcept;

 private:
  const LogCallback& log_;
  std::mutex mutex_;
  Clock::time_point since_{};
  std::uint64_t count_ = 0;
};

}  // namespace crossdock::session
