#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace crossdock::session {

/// Bounds what one connection does before the others get their turn: by time, and by an estimate of the work, which
/// saves reading the clock in turns that do little. One for each turn.
class TurnBudget {
 public:
  /// Of the clock: nanoseconds, from any start.
  using Clock = std::int64_t (*)() noexcept;

  static constexpr std::int64_t kMaxTime = 200'000;   ///< ns
  static constexpr std::uint64_t kMaxWork = 400'000;  ///< About nanoseconds.
  static constexpr std::uint64_t kStride = 2'000;     ///< Work between two readings of the clock.

  explicit TurnBudget(Clock clock = steady_now) noexcept : clock_(clock) {}

  /// Counts work that was done, in units of about a nanosecond.
  void spend(std::uint64_t work) noexcept {
    spent_ += work;
    if (spent_ >= next_look_) look();
  }
  /// Whether the turn may go on.
  bool left() const noexcept { return !over_; }
  std::uint64_t spent() const noexcept { return spent_; }

 private:
  static std::int64_t steady_now() noexcept {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  void look() noexcept {
    next_look_ = spent_ + kStride;
    const std::int64_t now = clock_();
    // Its first reading stands for the work before it, too.
    if (!start_) start_ = now - static_cast<std::int64_t>(spent_);
    over_ = spent_ >= kMaxWork || now - *start_ >= kMaxTime;
  }

  const Clock clock_;
  std::uint64_t spent_ = 0;
  std::uint64_t next_look_ = kStride;
  std::optional<std::int64_t> start_;  // ns
  bool over_ = false;
};

}  // namespace crossdock::session
