#pragma once

#include <chrono>
#include <cstdint>

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

  /// `start`: of the clock, when the turn began, or before.
  explicit TurnBudget(std::int64_t start, Clock clock = steady_now) noexcept
      : clock_(clock), start_(start), now_(start) {}

  /// Counts work that was done, in units of about a nanosecond.
  void spend(std::uint64_t work) noexcept {
    spent_ += work;
    if (spent_ >= next_look_) look();
  }
  /// Whether the turn may go on.
  bool left() const noexcept { return !over_; }
  std::uint64_t spent() const noexcept { return spent_; }
  /// The clock's last reading; the start if there was none.
  std::int64_t now() const noexcept { return now_; }

 private:
  static std::int64_t steady_now() noexcept {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  void look() noexcept {
    next_look_ = spent_ + kStride;
    now_ = clock_();
    over_ = spent_ >= kMaxWork || now_ - start_ >= kMaxTime;
  }

  const Clock clock_;
  const std::int64_t start_;  // ns
  std::int64_t now_;          // ns
  std::uint64_t spent_ = 0;
  std::uint64_t next_look_ = kStride;
  bool over_ = false;
};

}  // namespace crossdock::session
