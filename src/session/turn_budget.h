#pragma once

#include <chrono>
#include <cstdint>

namespace crossdock::session {

/// Limits the work for one connection before other connections get their turn. The limit is a time, and an estimate of
/// the work, which saves reading the clock in turns with little work. Make one for each turn.
class TurnBudget {
 public:
  /// Returns nanoseconds since any fixed time.
  using Clock = std::int64_t (*)() noexcept;

  static constexpr std::int64_t kMaxTime = 200'000;   ///< ns
  static constexpr std::uint64_t kMaxWork = 400'000;  ///< In about nanoseconds.
  static constexpr std::uint64_t kStride = 2'000;     ///< Work between two reads of the clock.

  /// `start`: the clock's value when the turn began, or earlier.
  explicit TurnBudget(std::int64_t start, Clock clock = steady_now) noexcept
      : clock_(clock), start_(start), now_(start) {}

  /// Adds work that was done, in units of about a nanosecond.
  void spend(std::uint64_t work) noexcept {
    spent_ += work;
    if (spent_ >= next_look_) look();
  }
  /// Whether the turn may continue.
  bool left() const noexcept { return !over_; }
  std::uint64_t spent() const noexcept { return spent_; }
  /// The last value read from the clock; `start` if it wasn't read.
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
