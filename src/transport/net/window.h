#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

/// The two ends of a window of messages over a network: what was sent and isn't taken yet.
/// docs/reference/protocol-tcp.md and docs/reference/protocol-ucx.md say when an end acknowledges.
namespace crossdock::transport::net {

/// Which messages of the peer this end has taken, and when the peer is to be told. Belongs to the receiving half: use
/// it on one thread at a time.
class Acknowledgements {
 public:
  /// Limits of what is taken without an acknowledgement.
  static constexpr std::uint64_t kQuietMessages = 32;
  static constexpr std::uint64_t kQuietBytes = 256 << 10;
  /// Turns in which nothing more has arrived, after which an acknowledgement waits for no other reason.
  static constexpr int kEmptyTurns = 256;

  /// Counts a message. Returns whether the peer is to be told now.
  bool count(std::size_t bytes) noexcept {
    ++taken_;
    bytes_ += bytes;
    empty_turns_ = 0;
    return taken_ - acknowledged_ >= quantum_ || bytes_ >= kQuietBytes;
  }
  /// Sets how many messages the peer allows in flight. Returns whether it is to be told now. Throws ProtocolError for
  /// 0; `where` names the peer.
  bool set_window(std::uint64_t messages, const std::string& where);
  /// Counts a turn in which nothing has arrived. Returns whether that was so for kEmptyTurns, and the peer is to be
  /// told.
  bool overdue() const noexcept { return owed() && (empty_turns_ == kEmptyTurns || ++empty_turns_ == kEmptyTurns); }
  /// Whether there is something to tell the peer.
  bool owed() const noexcept { return taken_ != acknowledged_; }
  /// The peer was told of all that was taken.
  void acknowledged() noexcept {
    acknowledged_ = taken_;
    bytes_ = 0;
  }
  /// The peer couldn't be told: overdue() counts anew.
  void postpone() noexcept { empty_turns_ = 0; }
  /// Messages that were taken in total.
  std::uint64_t taken() const noexcept { return taken_; }

 private:
  std::uint64_t taken_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t bytes_ = 0;  // of what the peer wasn't told of
  std::uint64_t quantum_ = kQuietMessages;
  mutable int empty_turns_ = 0;
};

/// How many messages of this end the peer has taken. The receiving half alone calls taken() and forget_opened(), the
/// sending half alone below().
class SendWindow {
 public:
  /// Sets how many messages the peer has taken in total, of `sent`. Throws ProtocolError if that can't be; `where`
  /// names the peer.
  void taken(std::uint64_t messages, std::uint64_t sent, const std::string& where);
  std::uint64_t taken() const noexcept { return taken_.load(std::memory_order_acquire); }
  /// Of `sent` messages in total.
  std::size_t in_flight(std::uint64_t sent) const noexcept { return static_cast<std::size_t>(sent - taken()); }
  /// Returns whether fewer than `window` messages, above 0, are in flight. After false, opened() turns true once the
  /// peer has taken enough of those.
  bool below(std::size_t window, std::uint64_t sent) noexcept {
    const bool below = in_flight(sent) < window;
    // in_flight() < window is true once the peer has taken more than sent - window.
    goal_.store(below ? 0 : sent - window + 1, std::memory_order_release);
    return below;
  }
  bool opened() const noexcept {
    const std::uint64_t goal = goal_.load(std::memory_order_acquire);
    return goal != 0 && taken() >= goal;
  }
  void forget_opened() noexcept {
    if (opened()) goal_.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> goal_{0};  // messages that the peer must take until below() is true; 0: none
};

}  // namespace crossdock::transport::net
