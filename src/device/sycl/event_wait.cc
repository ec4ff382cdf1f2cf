#include "event_wait.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace crossdock::device::sycl {

namespace {

using std::chrono::microseconds;

/// The number of waits for work that isn't complete after SYCL's wait, before that counts as a failure. With the pauses
/// between, they take about a second.
constexpr int kMostWaits = 64;
constexpr microseconds kLastPause{20'000};

}  // namespace

int wait_until_over(const Api& api, EventRef event) noexcept {
  // DPC++'s wait can return too early. It looks for the work first among the work that the device has, then among the
  // work that is held back for a host task. It misses work that the host task's thread passes to the device between the
  // two. The next wait finds it.
  int status = kStatusUnknown;
  microseconds pause{1};
  for (int waits = 0; waits < kMostWaits; ++waits) {
    api.event_wait(event);
    status = api.event_status(event);
    if (status == kStatusComplete || status == kStatusUnknown) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLastPause);
  }
  return status;
}

}  // namespace crossdock::device::sycl
