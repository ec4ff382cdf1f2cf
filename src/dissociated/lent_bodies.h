#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dissociated/wire.h"

namespace crossdock::dissociated {

/// A queue of lent bodies, the oldest first. Most consumers free bodies whole, and in the order in which they came:
/// then a body costs one comparison of its addresses. Pure. Use it from one thread at a time.
class LentBodies {
 public:
  struct Body {
    std::uint64_t holder = 0;
    std::uint64_t bytes = 0;  ///< The sum of the lengths.
    std::int64_t since_ms = 0;
    std::uint32_t buffers = 0;
  };

  /// Adds a body; buffers with address 0 are skipped. Returns the number of the others. Returns nothing, and changes
  /// nothing, if the queue has no room for the body: it is bounded, so that drain() takes little time.
  std::optional<std::size_t> push(std::span<const RemoteBuffer> buffers, std::uint64_t holder, std::int64_t now_ms);

  /// Removes the oldest body and returns it, if `addresses` begin with exactly its addresses, in their order.
  std::optional<Body> take(std::span<const std::uint64_t> addresses) noexcept {
    if (empty()) return std::nullopt;
    const Body body = bodies_[first_body_];
    if (addresses.size() < body.buffers) return std::nullopt;
    const RemoteBuffer* buffer = buffers_.data() + first_buffer_;
    for (const std::uint64_t address : addresses.first(body.buffers)) {
      if (buffer++->address != address) return std::nullopt;
    }
    forget_oldest(body);
    return body;
  }

  /// Removes all bodies. Calls `act(buffers, body)` for each, the oldest first; the span is valid in this call alone.
  template <typename Act>
  void drain(Act act) {
    while (!empty()) {
      const Body body = bodies_[first_body_];
      act(std::span<const RemoteBuffer>(buffers_).subspan(first_buffer_, body.buffers), body);
      forget_oldest(body);
    }
  }

  bool empty() const noexcept { return n_buffers_ == 0; }
  std::size_t outstanding() const noexcept { return n_buffers_; }  ///< Buffers of all bodies.
  std::uint64_t outstanding_bytes() const noexcept { return bytes_; }
  std::optional<std::int64_t> oldest_ms() const noexcept;
  std::uint64_t memory() const noexcept;

 private:
  std::size_t end_buffer() const noexcept { return first_buffer_ + n_buffers_; }
  bool make_room(std::size_t buffers);
  void forget_oldest(const Body& body) noexcept {
    ++first_body_;
    first_buffer_ += body.buffers;
    n_buffers_ -= body.buffers;
    bytes_ -= body.bytes;
    if (n_buffers_ != 0) return;
    bodies_.clear();
    first_body_ = first_buffer_ = 0;
  }

  std::vector<Body> bodies_;           // those before `first_body_` were freed
  std::vector<RemoteBuffer> buffers_;  // in use from `first_buffer_` on; its size is the room that there is
  std::size_t first_body_ = 0;
  std::size_t first_buffer_ = 0;
  std::size_t n_buffers_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace crossdock::dissociated
