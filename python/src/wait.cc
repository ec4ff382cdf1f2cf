#include "wait.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "crossdock/core/error.h"
#include "gil.h"
#include "interrupt.h"

namespace crossdock::python {
namespace {

using std::chrono::microseconds;

constexpr int kQuickLooks = 16;  // work that is as good as done costs no sleep
constexpr microseconds kFirstPause{8};
constexpr microseconds kLongestPause{1000};

/// False if a signal handler raised something.
bool poll(device::Context& context, const device::Event& event, Interrupt& interrupt) {
  for (int i = 0; i < kQuickLooks; ++i) {
    if (context.query(event)) return true;
    std::this_thread::yield();
  }
  for (microseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (context.query(event)) return true;
    // It takes the interpreter lock: not for what is over in a moment.
    if (pause == kLongestPause && interrupt.check()) return false;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

void wait_for_event(device::Context& context, const device::Event& event) {
  Interrupt interrupt;
  {
    const GilReleaseIfHeld release;
    if (!Interrupt::possible_here()) return context.wait(event);
    if (poll(context, event, interrupt)) return;
  }
  const GilAcquire lock("waiting for a device");
  if (interrupt.raise_here()) throw nanobind::python_error();
  throw InterruptedError("waiting for a device was interrupted");
}

}  // namespace crossdock::python
