#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/clock.h"
#include "core/milliseconds.h"
#include "crossdock/core/error.h"
#include "transport/transport.h"

namespace crossdock::transport {

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;  // ns
constexpr std::int64_t kAutoSpin = 30'000;        // ns: about the cost of one sleep and wake-up
constexpr int kLooks = 64;                        // checks between two reads of the clock while spinning

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

[[noreturn]] void throw_interrupted() { throw InterruptedError("waiting for a message was interrupted"); }

/// Detects events that shared memory doesn't show: a peer that was killed, or a region that has arrived.
bool socket_readable(Connection& connection) {
  pollfd descriptor{connection.descriptor(), POLLIN, 0};
  if (::poll(&descriptor, 1, 0) <= 0) return false;
  connection.wake();
  return true;
}

/// Spins until the connection is readable or the clock shows `until` (0: never). Polls the socket about once a
/// millisecond.
bool spin(Connection& connection, std::int64_t until, const InterruptHook& interrupted) {
  std::int64_t next_check = 0;
  for (;;) {
    for (int i = 0; i < kLooks; ++i) {
      if (connection.readable()) return true;
      pause();
    }
    const std::int64_t now = now_ns();
    if (until != 0 && now >= until) return false;
    if (next_check == 0) next_check = now + kMillisecond;
    if (now < next_check) continue;
    next_check = now + kMillisecond;
    if (socket_readable(connection)) return true;
    if (interrupted && interrupted()) throw_interrupted();
    ::sched_yield();  // with few processors, the peer may wait for this one
  }
}

/// Sleeps until the connection is readable or the clock shows `deadline` (0: never).
bool sleep(Connection& connection, std::int64_t deadline, const InterruptHook& interrupted) {
  for (;;) {
    if (!connection.prepare_sleep()) return true;
    std::int64_t left = interrupted ? kHookInterval / std::chrono::nanoseconds(1) : -1;
    if (deadline != 0) {
      const std::int64_t until_deadline = std::max<std::int64_t>(deadline - now_ns(), 0);
      left = left < 0 ? until_deadline : std::min(left, until_deadline);
    }
    timespec limit{};
    if (left >= 0) {
      limit.tv_sec = left / (1000 * kMillisecond);
      limit.tv_nsec = left % (1000 * kMillisecond);
    }
    pollfd descriptor{connection.descriptor(), POLLIN, 0};
    const int ready = ::ppoll(&descriptor, 1, left >= 0 ? &limit : nullptr, nullptr);
    if (ready > 0) {
      connection.wake();
      return true;
    }
    const bool over = deadline != 0 && now_ns() >= deadline;
    const bool stop = interrupted && interrupted();  // a signal has arrived, or the interval has passed
    if (!over && !stop) continue;
    connection.wake();
    if (stop) throw_interrupted();
    return false;
  }
}

bool one_processor() {
  static const bool one = ::sysconf(_SC_NPROCESSORS_ONLN) == 1;
  return one;
}

}  // namespace

bool wait_readable(Connection& connection, WaitMode mode, std::int64_t deadline_ns, const InterruptHook& interrupted) {
  if (mode == WaitMode::kSpin) return spin(connection, deadline_ns, interrupted);
  if (mode == WaitMode::kAuto && !one_processor() && !connection.in_bulk()) {
    const std::int64_t until = now_ns() + kAutoSpin;
    if (spin(connection, deadline_ns == 0 ? until : std::min(until, deadline_ns), interrupted)) return true;
  }
  return sleep(connection, deadline_ns, interrupted);
}

}  // namespace crossdock::transport
