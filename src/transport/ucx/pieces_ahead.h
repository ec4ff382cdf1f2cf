#pragma once

#include <cstdint>
#include <deque>

namespace crossdock::transport::ucx {

/// How many bytes of small pieces are ahead of the peer. UCX gives a small piece to the peer at once, and the peer
/// keeps it until its body is due: a consumer that is slow would keep those of a whole window of bodies. Large pieces
/// stay with the sender. Use it under the sending half's rules.
class PiecesAhead {
 public:
  /// At most; but a single body may have more. Half of what the strictest peer keeps.
  static constexpr std::uint64_t kMost = 8 << 20;

  /// Begins with message `number`, counted from 1. The peer has taken `taken` messages.
  void begin(std::uint64_t number, std::uint64_t taken) {
    number_ = number;
    goal_ = 0;
    for (; !bodies_.empty() && bodies_.front().number <= taken; bodies_.pop_front()) bytes_ -= bodies_.front().bytes;
  }
  /// Returns whether `bytes` of the message's body may be sent, and counts them. After false, goal() says when.
  bool add(std::uint64_t bytes) {
    if (bytes == 0) return true;
    if (!bodies_.empty() && bytes_ + bytes > kMost) {
      goal_ = bodies_.front().number;
      return false;
    }
    bodies_.push_back({number_, bytes});
    bytes_ += bytes;
    return true;
  }
  /// The number of the message that the peer must have taken first; 0: none.
  std::uint64_t goal() const noexcept { return goal_; }

 private:
  struct Body {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
  };
  std::deque<Body> bodies_;  // those that the peer hasn't taken
  std::uint64_t bytes_ = 0;  // of all of them
  std::uint64_t number_ = 0;
  std::uint64_t goal_ = 0;
};

}  // namespace crossdock::transport::ucx
