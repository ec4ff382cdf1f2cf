#include "session/flight/refusals.h"

#include "session/say.h"

namespace crossdock::session {

void Refusals::log(const std::string& peer, const std::exception& why, Clock::time_point now) noexcept {
  std::uint64_t left_out = 0;
  {
    const std::lock_guard lock(mutex_);
    if (now - since_ >= kTime) {
      left_out = count_ > kMost ? count_ - kMost : 0;
      since_ = now;
      count_ = 0;
    }
    if (++count_ > kMost) return;
  }
  say(log_, LogLevel::kWarning, [&] {
    return "a Flight client at " + peer + " was refused: " + why.what() +
           (left_out == 0 ? std::string() : "; and " + std::to_string(left_out) + " more before");
  });
}

}  // namespace crossdock::session
