#include "log_sinks.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace crossdock::transport::ucx {
namespace {

struct Sinks {
  std::mutex mutex;
  std::vector<std::weak_ptr<const LogCallback>> sinks;
};

/// Never destroyed: a thread of UCX may log while the process ends.
Sinks& all() {
  static auto* const sinks = new Sinks;
  return *sinks;
}

}  // namespace

std::shared_ptr<const void> add_log_sink(LogCallback log) {
  auto sink = std::make_shared<const LogCallback>(std::move(log));
  const std::lock_guard lock(all().mutex);
  std::erase_if(all().sinks, [](const auto& known) { return known.expired(); });
  all().sinks.push_back(sink);
  return sink;
}

void log_line(LogLevel level, std::string_view line) noexcept {
  try {
    std::vector<std::weak_ptr<const LogCallback>> sinks;
    {
      const std::lock_guard lock(all().mutex);
      sinks = all().sinks;
    }
    for (const auto& known : sinks) {
      if (const auto sink = known.lock(); sink != nullptr && *sink) (*sink)(level, line);
    }
  } catch (...) {  // The caller is a C function, and losing a line of a log is the smaller harm.
  }
}

}  // namespace crossdock::transport::ucx
