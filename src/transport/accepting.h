#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "crossdock/core/unique_fd.h"

/// What listeners have in common: taking clients, also where the system has no means for it, and turning them away.
namespace crossdock::transport {

/// A descriptor that is given up for a moment to turn a client away when there is no other; none if there is none left.
inline UniqueFd open_reserve() noexcept { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

/// What newcomers are told while Listener::turn_away() is on.
inline constexpr const char* kNoPlace =
    "the server has as many connections as it takes (max_connections); try again when others have left";

/// The next client of a listening socket; none: errno says why.
inline UniqueFd accept_at(int listener) noexcept {
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

/// For a listener that can't accept a client who waits: it stops asking for a while, instead of being woken for that
/// client again and again. One thread.
class Rest {
 public:
  using Clock = std::chrono::steady_clock;
  /// True if it wasn't resting already: worth a line in the log.
  bool begin() noexcept {
    until_ = Clock::now() + std::chrono::milliseconds(200);
    return !std::exchange(on_, true);
  }
  /// Something could be accepted, or nobody waits.
  void end() noexcept { on_ = false; }
  bool on() const noexcept { return on_; }
  /// Whether to try.
  bool may_accept() const noexcept { return !on_ || Clock::now() >= until_; }
  /// When to try again; only while it rests.
  Clock::time_point until() const noexcept { return until_; }

 private:
  Clock::time_point until_{};
  bool on_ = false;
};

}  // namespace crossdock::transport
