#include "dissociated/lent_bodies.h"

#include <algorithm>
#include <bit>

namespace crossdock::dissociated {
namespace {

constexpr std::size_t kMaxBuffers = 4096;  // also bounds the bodies: one without buffers isn't added
constexpr std::size_t kFirstRoom = 64;

}  // namespace

// Returns false if there would be too many buffers.
bool LentBodies::make_room(std::size_t buffers) {
  if (n_buffers_ + buffers > kMaxBuffers) return false;
  if (first_buffer_ > buffers_.size() / 2) {  // moves few, and makes much room
    std::copy_n(buffers_.data() + first_buffer_, n_buffers_, buffers_.data());
    bodies_.erase(bodies_.begin(), bodies_.begin() + static_cast<std::ptrdiff_t>(first_body_));
    first_buffer_ = first_body_ = 0;
  }
  const std::size_t room = std::bit_ceil(std::max(end_buffer() + buffers, kFirstRoom));
  if (room > 2 * kMaxBuffers) return false;
  if (room > buffers_.size()) buffers_.resize(room);
  return true;
}

std::optional<std::size_t> LentBodies::push(std::span<const RemoteBuffer> buffers, std::uint64_t holder,
                                            std::int64_t now_ms) {
  if (end_buffer() + buffers.size() > buffers_.size() && !make_room(buffers.size())) [[unlikely]]
    return std::nullopt;
  RemoteBuffer* const begin = buffers_.data() + end_buffer();
  RemoteBuffer* end = begin;
  std::uint64_t bytes = 0;
  for (const RemoteBuffer& buffer : buffers) {
    if (buffer.address == 0) continue;
    bytes += buffer.length;
    *end++ = buffer;
  }
  const auto kept = static_cast<std::size_t>(end - begin);
  if (kept == 0) return 0;
  bodies_.push_back({holder, bytes, now_ms, static_cast<std::uint32_t>(kept)});
  n_buffers_ += kept;
  bytes_ += bytes;
  return kept;
}

std::optional<std::int64_t> LentBodies::oldest_ms() const noexcept {
  if (empty()) return std::nullopt;
  return bodies_[first_body_].since_ms;
}

std::uint64_t LentBodies::memory() const noexcept {
  return bodies_.capacity() * sizeof(Body) + buffers_.capacity() * sizeof(RemoteBuffer);
}

}  // namespace crossdock::dissociated
