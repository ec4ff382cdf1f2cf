#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "crossdock/core/unique_fd.h"

/// Helpers of the listeners: accepting clients, backing off when the system has no descriptors left, and rejecting
/// clients.
namespace crossdock::transport {

/// Opens a spare descriptor, closed for a moment to reject a client when no other is left. Empty on failure.
inline UniqueFd open_reserve() noexcept { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

/// The reason that new clients get while Listener::reject_all() is on.
inline constexpr const char* kServerFull =
    "the server has as many connections as it takes (max_connections); try again when others have left";

/// Accepts the next client of a listening socket. Empty on failure, with errno set.
inline UniqueFd accept_at(int listener) noexcept {
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

/// Pauses accept() after a failure for want of resources: otherwise the waiting client would wake the listener again
/// and again. One thread.
class AcceptBackoff {
 public:
  using Clock = std::chrono::steady_clock;
  /// Starts a pause, or prolongs it. Returns true if it starts: the caller logs it once.
  bool begin() noexcept {
    until_ = Clock::now() + std::chrono::milliseconds(200);
    return !std::exchange(on_, true);
  }
  /// Ends the pause: accept() succeeded, or no client waits.
  void end() noexcept { on_ = false; }
  bool on() const noexcept { return on_; }
  /// Whether accept() may be tried.
  bool may_accept() const noexcept { return !on_ || Clock::now() >= until_; }
  /// The end of the pause. Valid while on().
  Clock::time_point until() const noexcept { return until_; }

 private:
  Clock::time_point until_{};
  bool on_ = false;
};

}  // namespace crossdock::transport
