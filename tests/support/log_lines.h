#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/log.h"

namespace crossdock::testing {

/// Takes a server's log, and waits for what it tells of. Outlives the server.
class LogLines {
 public:
  LogCallback callback() {
    return [this](LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
      came_.notify_all();
    };
  }

  /// Asks for `condition` now, and again after each line. False: it didn't come true in time.
  template <typename Condition>
  bool wait_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::size_t known = 0;
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        known = lines_.size();
      }
      if (condition()) return true;
      std::unique_lock lock(mutex_);
      if (!came_.wait_until(lock, deadline, [&] { return lines_.size() > known; })) return false;
    }
  }

  int count(std::string_view part) const {
    const std::lock_guard lock(mutex_);
    int found = 0;
    for (const std::string& line : lines_) found += line.find(part) != std::string::npos;
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> lines_;
};

}  // namespace crossdock::testing
