#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "random.h"

namespace crossdock::simulation {

/// A message on its way.
struct Packet {
  bool tagged = false;
  std::uint64_t tag = 0;
  std::vector<std::byte> bytes;
  bool request = false;  ///< A client's request or cancel: those of one connection never overtake each other.
};

/// What may overtake what. The specification lets a receiver rely on nothing.
enum class Order : std::uint8_t {
  kInOrder,
  kKindsOvertake,  ///< Tagged messages stay in order, and untagged ones do; the two kinds overtake each other.
  kAny,
};

/// One direction of a simulated connection. A message travels in pieces, each with a delay of its own, and is there
/// when the last piece is: so a loss finds some messages whole, some in part and some not begun.
class Link {
 public:
  Link(Order order, std::uint32_t most_delay, Random random)
      : order_(order), most_delay_(most_delay), random_(random) {}

  /// Dropped without a word once the link is closed or cut: the sender can't know yet.
  void send(Packet packet, std::uint64_t now);
  /// A message that has arrived whole. Those that arrived first come first.
  std::optional<Packet> receive(std::uint64_t now);
  /// The sender closes: what was sent still arrives.
  void close() noexcept { closed_ = true; }
  /// The connection is lost: what hasn't arrived whole never will.
  void cut(std::uint64_t now);
  /// The receiver sees the end: nothing has arrived, and nothing more will.
  bool ended() const noexcept { return (closed_ || cut_) && in_flight_.empty(); }
  /// Messages sent that the receiver hasn't taken.
  std::size_t in_flight() const noexcept { return in_flight_.size(); }
  /// When the next message arrives; nothing if none is on its way.
  std::optional<std::uint64_t> next_arrival() const noexcept;

 private:
  struct Travelling {
    std::uint64_t arrives;
    std::uint64_t serial;
    Packet packet;
  };
  std::size_t first() const noexcept;

  Order order_;
  std::uint32_t most_delay_;
  Random random_;
  std::vector<Travelling> in_flight_;
  std::uint64_t serial_ = 0;
  std::uint64_t latest_[2] = {0, 0};  // arrival of the last message of each kind
  std::uint64_t latest_request_ = 0;
  bool closed_ = false;
  bool cut_ = false;
};

}  // namespace crossdock::simulation
