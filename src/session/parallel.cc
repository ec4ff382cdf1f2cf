#include "session/parallel.h"

#include <sched.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "core/blocked_signals.h"

namespace crossdock::session {
namespace {

int cores() noexcept {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

}  // namespace

void run_parallel(int most, const std::function<void(int worker)>& work) {
  const int n = std::min(most, cores());
  std::vector<std::jthread> helpers;
  if (n > 1) {
    helpers.reserve(static_cast<std::size_t>(n - 1));
    const BlockedSignals blocked;
    try {
      for (int i = 1; i < n; ++i) helpers.emplace_back([&work, i] { work(i); });
    } catch (const std::system_error&) {
      // No more threads can be started: fewer do the work.
    }
  }
  work(0);
}

}  // namespace crossdock::session
