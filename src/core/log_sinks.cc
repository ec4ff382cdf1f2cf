#include "core/log_sinks.h"

#include <utility>

namespace crossdock {

std::shared_ptr<const void> LogSinks::add(LogCallback log) {
  auto sink = std::make_shared<const LogCallback>(std::move(log));
  const std::lock_guard lock(mutex_);
  std::erase_if(sinks_, [](const auto& known) { return known.expired(); });
  sinks_.push_back(sink);
  return sink;
}

void LogSinks::line(LogLevel level, std::string_view text) noexcept {
  try {
    std::vector<std::weak_ptr<const LogCallback>> sinks;
    {
      const std::lock_guard lock(mutex_);
      sinks = sinks_;
    }
    for (const auto& known : sinks) {
      if (const auto sink = known.lock(); sink != nullptr && *sink) (*sink)(level, text);
    }
  } catch (...) {  // The caller is a C function, and losing a line of a log is the smaller harm.
  }
}

}  // namespace crossdock
