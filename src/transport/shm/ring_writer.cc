#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "crossdock/core/error.h"
#include "ring.h"

namespace crossdock::transport::shm {

namespace {

/// Limits of one call for a message, so that other connections get their turn.
constexpr std::uint64_t kBytesWrittenPerCall = 256 << 10;
constexpr int kFramesPerCall = 32;  // of many small parts

constexpr std::uint64_t kWritePrefetchBytes = 1024;  // bytes: about a message of a dozen columns

/// Requests a cache line for writing. Only a hint: it neither reads nor faults.
void prefetch_for_write(std::byte* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*line));  // the builtin is this instruction only with a processor option
#else
  __builtin_prefetch(line, 1);
#endif
}

constexpr std::uint64_t frame_bytes(std::uint64_t payload) noexcept {
  return align_up(sizeof(FrameHeader) + payload, sizeof(FrameHeader));
}

}  // namespace

RingWriter::RingWriter(const RingView& view, Barrier barrier, RingOwner& owner, std::string where)
    : view_(view),
      barrier_(barrier),
      owner_(owner),
      where_(std::move(where)),
      max_payload_(view.out_bytes / 4 - sizeof(FrameHeader)) {}

/// Called after a message was written, or found no room: checks whether the peer has closed the connection, and wakes
/// it if it sleeps.
inline void RingWriter::look_at_peer() {
  barrier_.light();
  const std::uint64_t state = view_.peer->state.load(std::memory_order_acquire);
  if (state != handled_state_) [[unlikely]]
    handle_state(state);
}

inline void RingWriter::write_header(std::uint32_t flags, std::uint64_t tag, std::uint64_t payload) noexcept {
  const FrameHeader header{static_cast<std::uint32_t>(payload), flags, tag};
  std::memcpy(view_.out + (written_ & (view_.out_bytes - 1)), &header, sizeof header);
}

inline void RingWriter::copy_in(std::uint64_t at, ByteSpan bytes) noexcept {
  const std::uint64_t offset = at & (view_.out_bytes - 1);
  const std::uint64_t until_end = view_.out_bytes - offset;
  if (bytes.size() <= until_end) [[likely]] {
    if (!bytes.empty()) std::memcpy(view_.out + offset, bytes.data(), bytes.size());
    return;
  }
  std::memcpy(view_.out + offset, bytes.data(), until_end);
  std::memcpy(view_.out, bytes.data() + until_end, bytes.size() - until_end);
}

/// Publishes the written data to the peer.
inline void RingWriter::publish() {
  view_.own->written.store(written_, std::memory_order_release);
  look_at_peer();
  // Prefetches the next cache lines for writing. They are still in the peer's cache, which read them in the ring's last
  // round. Fetching them now takes that time off the next message.
  std::uint64_t at = std::max(prefetched_, written_ & ~(kCacheLine - 1));
  const std::uint64_t end = written_ + kWritePrefetchBytes;
  for (; at < end; at += kCacheLine) prefetch_for_write(view_.out + (at & (view_.out_bytes - 1)));
  prefetched_ = at;
}

bool RingWriter::send(std::uint32_t flags, std::uint64_t tag, ByteSpan head, ByteSpan tail, bool corked) {
  const std::uint64_t size = head.size() + tail.size();
  if (pending() && !flush()) {
    refused_.store(frame_bytes(std::min(size, max_payload_)), std::memory_order_seq_cst);
    return false;
  }
  if (size > max_payload_) [[unlikely]] {
    if (!begin_large(flags, tag, head, tail)) return false;
  } else {
    const std::uint64_t frame = frame_bytes(size);
    if (!make_way(frame, refused_)) [[unlikely]]
      return false;
    write_header(flags, tag, size);
    copy_in(written_ + sizeof(FrameHeader), head);
    copy_in(written_ + sizeof(FrameHeader) + head.size(), tail);
    written_ += frame;
    if (!corked) publish();
  }
  ++sent_;
  if (refused_.load(std::memory_order_relaxed) != 0) refused_.store(0, std::memory_order_seq_cst);
  return true;
}

bool RingWriter::send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep,
                           std::uint64_t limit) {
  std::uint64_t size = 0;
  for (const ByteSpan part : parts) {
    if (!checked_add<std::uint64_t>(size, part.size(), &size) || size > limit) {
      throw InvalidArgumentError("a body by value exceeds the limit of " + std::to_string(limit) + " bytes of " +
                                 where_ + "; raise ShmOptions::max_body there");
    }
  }
  if (pending() && !flush()) {
    refused_.store(frame_bytes(std::min(sizeof size + size, max_payload_)), std::memory_order_seq_cst);
    return false;
  }
  // The length is sent first, as a separate part; its memory belongs to the owner of the parts.
  struct Keep {
    std::uint64_t size;
    std::shared_ptr<const void> parts;
  };
  const auto owner = std::make_shared<Keep>(Keep{size, std::move(keep)});
  PendingWrite pending{.keep = owner, .left = sizeof size + size, .flags = kTagged | kBody, .tag = tag};
  pending.parts.reserve(parts.size() + 1);
  pending.parts.push_back(std::as_bytes(std::span(&owner->size, 1)));
  pending.parts.insert(pending.parts.end(), parts.begin(), parts.end());
  if (!begin(std::move(pending))) return false;
  ++sent_;
  if (refused_.load(std::memory_order_relaxed) != 0) refused_.store(0, std::memory_order_seq_cst);
  return true;
}

bool RingWriter::retire(std::uint16_t number) {
  if (pending() && !flush()) {
    refused_.store(frame_bytes(0), std::memory_order_seq_cst);
    return false;
  }
  if (!write_frame(kRetire, number, {}, 0, refused_)) return false;
  publish();
  if (refused_.load(std::memory_order_relaxed) != 0) refused_.store(0, std::memory_order_seq_cst);
  return true;
}

bool RingWriter::begin_large(std::uint32_t flags, std::uint64_t tag, ByteSpan head, ByteSpan tail) {
  const std::uint64_t first = frame_bytes(max_payload_);
  if (!has_room(first) && !record_shortage(first, refused_)) return false;
  // Everything that can fail happens before the first frame: the message is sent completely or not at all.
  try {
    const auto copy = std::make_shared<std::vector<std::byte>>();
    copy->reserve(head.size() + tail.size());
    copy->insert(copy->end(), head.begin(), head.end());
    copy->insert(copy->end(), tail.begin(), tail.end());
    return begin({.parts = {*copy}, .keep = copy, .left = copy->size(), .flags = flags, .tag = tag});
  } catch (const std::bad_alloc&) {
    throw ResourceError(where_ + ": no memory for sending a message of " + std::to_string(head.size() + tail.size()) +
                        " bytes");
  }
}

/// Writes a part of the message, at least its first frame; flush() writes the rest.
bool RingWriter::begin(PendingWrite pending) {
  const std::uint64_t first = frame_bytes(std::min(pending.left, max_payload_));
  if (!has_room(first) && !record_shortage(first, refused_)) return false;
  const std::lock_guard lock(mutex_);
  pending_write_ = std::move(pending);
  pending_.store(true, std::memory_order_release);
  push_pending();
  return true;
}

bool RingWriter::flush() {
  if (!pending_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  return !pending_.load(std::memory_order_acquire) || push_pending();
}

bool RingWriter::push_pending() {
  constexpr std::size_t kPieces = 64;
  const std::uint64_t enough = written_ + kBytesWrittenPerCall;
  for (int frames = 0; pending_write_.left > 0 || frames == 0; ++frames) {
    if (written_ >= enough || frames == kFramesPerCall) {
      // Any room is enough to continue. If the thread that would continue is asleep, this thread continues.
      pending_wants_.store(frame_bytes(0), std::memory_order_seq_cst);
      if (!asleep_.load(std::memory_order_seq_cst)) return false;
    }
    std::array<ByteSpan, kPieces> pieces;
    std::size_t n = 0;
    std::uint64_t payload = 0;
    std::size_t part = pending_write_.part;
    std::size_t offset = pending_write_.offset;
    while (part < pending_write_.parts.size() && n < kPieces && payload < max_payload_) {
      const ByteSpan left = pending_write_.parts[part].subspan(offset);
      pieces[n] = left.first(std::min<std::size_t>(left.size(), max_payload_ - payload));
      payload += pieces[n].size();
      offset += pieces[n].size();
      n += !pieces[n].empty();
      if (offset == pending_write_.parts[part].size()) {
        ++part;
        offset = 0;
      }
    }
    const std::uint32_t more = payload < pending_write_.left ? kMore : 0;
    if (!write_frame(pending_write_.flags | more, pending_write_.tag, std::span(pieces).first(n), payload,
                     pending_wants_))
      return false;
    publish();
    pending_write_.part = part;
    pending_write_.offset = offset;
    pending_write_.left -= payload;
  }
  pending_write_ = {};  // such messages are rare and may be huge
  pending_.store(false, std::memory_order_release);
  return true;
}

bool RingWriter::write_frame(std::uint32_t flags, std::uint64_t tag, std::span<const ByteSpan> pieces,
                             std::uint64_t payload, Want& want) {
  const std::uint64_t need = frame_bytes(payload);
  if (!make_way(need, want)) return false;
  write_header(flags, tag, payload);
  std::uint64_t at = written_ + sizeof(FrameHeader);
  for (const ByteSpan piece : pieces) {
    copy_in(at, piece);
    at += piece.size();
  }
  written_ += need;
  return true;
}

/// look_at_peer() where the peer's state has changed.
void RingWriter::handle_state(std::uint64_t state) {
  if ((state & kClosedBit) != 0) throw ConnectionError(where_ + " has closed the connection");
  handled_state_ = state;
  if ((state & 1) != 0) owner_.ring();  // once per sleep: the byte stays until the sleeping thread reads it
}

/// Reads how far the peer has read, checks it, and returns whether there is room.
bool RingWriter::has_room(std::uint64_t bytes) {
  const std::uint64_t taken = view_.peer->taken.load(std::memory_order_acquire);
  if (taken - peer_taken_ > written_ - peer_taken_) {
    throw ProtocolError(where_ + " moved its read cursor from " + std::to_string(peer_taken_) + " to " +
                        std::to_string(taken) + ", but the write cursor is at " + std::to_string(written_));
  }
  peer_taken_ = taken;
  return view_.out_bytes - (written_ - taken) >= bytes;
}

/// Records that a write of `bytes` found no room, so that the peer will wake this end. Returns true if room has come in
/// the meantime.
bool RingWriter::record_shortage(std::uint64_t bytes, Want& want) {
  view_.own->written.store(written_, std::memory_order_release);  // corked messages make room once they are taken
  want.store(bytes, std::memory_order_seq_cst);
  if (!asleep_.load(std::memory_order_seq_cst)) {
    // No request is needed. The thread that sleeps for both sets asleep_ first and then reads `want`; as asleep_ isn't
    // set yet, it will see this value.
    look_at_peer();
    return false;
  }
  ask_for_room();
  barrier_.heavy();
  if (has_room(bytes)) return true;
  look_at_peer();
  return false;
}

void RingWriter::ask_for_room() {
  const std::lock_guard lock(request_mutex_);  // both threads may call this: a request must cover the needs of both
  RingHeader& own = *view_.own;
  const std::uint64_t bytes = wanted();
  const std::uint64_t written = own.written.load(std::memory_order_relaxed);
  // Asks for at least a quarter of the ring: a wake-up for each free frame would cost more than waiting.
  const std::uint64_t reach = written + std::max(bytes, view_.out_bytes / 4);
  own.taken_goal.store(bytes == 0 ? 0 : std::max(reach, view_.out_bytes + 1) - view_.out_bytes,
                       std::memory_order_relaxed);
  const std::uint64_t goal = window_goal_.load();
  own.messages_goal.store(goal == 0 ? 0 : goal + window_slack_.load(std::memory_order_relaxed),
                          std::memory_order_relaxed);
  own.requests.fetch_add(1, std::memory_order_seq_cst);
}

/// Returns the bytes of room that the next attempt needs; 0 if none has failed.
std::uint64_t RingWriter::wanted() const noexcept { return pending_.load() ? pending_wants_.load() : refused_.load(); }

bool RingWriter::room_came() const noexcept {
  const std::uint64_t goal = window_goal_.load();
  if (goal != 0 && view_.peer->messages_taken.load(std::memory_order_acquire) >= goal) return true;
  const std::uint64_t bytes = wanted();
  if (bytes == 0) return false;
  const std::uint64_t taken = view_.peer->taken.load(std::memory_order_acquire);
  // A cursor out of range counts as room: the next attempt detects it and throws.
  return view_.out_bytes - (view_.own->written.load(std::memory_order_relaxed) - taken) >= bytes;
}

std::size_t RingWriter::in_flight() {
  const std::uint64_t messages = view_.peer->messages_taken.load(std::memory_order_acquire);
  if (messages - peer_messages_ > sent_ - peer_messages_) {
    throw ProtocolError(where_ + " acknowledged " + std::to_string(messages) + " messages (before: " +
                        std::to_string(peer_messages_) + "), but only " + std::to_string(sent_) + " were sent to it");
  }
  peer_messages_ = messages;
  return sent_ - messages;
}

bool RingWriter::below_window(std::size_t window) {
  if (sent_ - peer_messages_ < window || in_flight() < window) {
    if (window_goal_.load(std::memory_order_relaxed) != 0) window_goal_.store(0);
    return true;
  }
  window_slack_.store(window / 8, std::memory_order_relaxed);
  window_goal_.store(sent_ - window + 1);
  if (!asleep_.load()) return false;
  ask_for_room();
  barrier_.heavy();
  return in_flight() < window;
}

}  // namespace crossdock::transport::shm
