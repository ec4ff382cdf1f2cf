#include "event_wait.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace crossdock::device::sycl {

namespace {

using std::chrono::microseconds;

/// How often to wait for work that SYCL then doesn't call complete, before that counts as a failure: for a second or
/// so, with the pauses between.
constexpr int kMostWaits = 64;
constexpr microseconds kLastPause{20'000};

}  // namespace

int wait_until_over(const Api& api, EventRef event) noexcept {
  // DPC++'s wait can return too early: it looks for the work first among what the device has, then among what is held
  // back for a host task, and misses what the host task's thread hands on between the two. The next wait finds it.
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
