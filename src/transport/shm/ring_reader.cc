#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "crossdock/core/error.h"
#include "ring.h"

namespace crossdock::transport::shm {

namespace {

/// A larger buffer is freed when no message has needed it for a while.
constexpr std::size_t kKeep = 1 << 20;
constexpr std::uint32_t kSmallInARow = 1024;
/// Limit of bytes read in one call, so that other connections get their turn while a long message arrives.
constexpr std::uint64_t kBytesReadPerCall = 256 << 10;
/// Limit of doorbells rung in one call, since each costs a system call: as many as a peer needs that fills a quarter of
/// the smallest ring each time.
constexpr int kRingsPerCall = static_cast<int>(kBytesReadPerCall / (kMinRingBytes / 4));
constexpr std::uint64_t kReadPrefetchBytes = 2048;  // bytes: the metadata and the addresses of a dozen columns

}  // namespace

RingReader::RingReader(const RingView& view, Barrier barrier, RingOwner& owner, ReadLimits limits, std::string where)
    : view_(view), barrier_(barrier), owner_(owner), limits_(std::move(limits)), where_(std::move(where)) {}

inline void RingReader::copy_out(std::uint64_t at, std::byte* to, std::size_t size) const noexcept {
  const std::uint64_t offset = at & (view_.in_bytes - 1);
  const std::size_t first = std::min<std::size_t>(size, view_.in_bytes - offset);
  std::memcpy(to, view_.in + offset, first);
  if (first < size) [[unlikely]] {
    std::memcpy(to + first, view_.in, size - first);
  }
}

/// Makes room for `size` bytes in the private copy and keeps the first size_.
inline std::byte* RingReader::grow(std::size_t size) {
  if (size <= capacity_ && capacity_ <= kKeep && capacity_ != 0) [[likely]]
    return bytes_.get();
  return reallocate(size);
}

/// Publishes the read cursor at once. Its cache line stays with this processor until the peer reads it, which it does
/// only when its ring or its window is full.
inline void RingReader::publish() noexcept {
  view_.own->taken.store(taken_, std::memory_order_release);
  view_.own->messages_taken.store(messages_, std::memory_order_release);
  barrier_.light();
  if (view_.peer->requests.load(std::memory_order_acquire) != answered_ && rings_left_ != 0) [[unlikely]]
    answer_request(false);
}

std::optional<Incoming> RingReader::receive() {
  rings_left_ = kRingsPerCall;
  std::optional<Incoming> message = take_frames();
  // Answers a request that was made after the last doorbell. There may be no further call of receive() before the peer
  // has continued.
  if (rings_left_ == 0) [[unlikely]]
    answer_request(false);
  return message;
}

std::optional<Incoming> RingReader::take_frames() {
  if (!in_message_) size_ = 0;
  const std::uint64_t enough = taken_ + kBytesReadPerCall;
  while (taken_ < enough) {
    if (taken_ == peer_written_ && !reload()) return std::nullopt;
    FrameHeader header;  // a copy: the peer may change the original at any moment
    std::memcpy(&header, view_.in + (taken_ & (view_.in_bytes - 1)), sizeof header);
    const std::uint64_t frame = align_up(sizeof header + std::uint64_t{header.length}, sizeof header);
    if (frame > peer_written_ - taken_) [[unlikely]]
      fail_frame(header);
    const bool is_whole = !in_message_ && (header.flags == kTagged || (header.flags == 0 && header.tag == 0));
    if (is_whole && header.length <= limits_.max_message) [[likely]] {
      copy_out(taken_ + sizeof header, grow(header.length), header.length);
      taken_ += frame;
      ++messages_;
      publish();
      return Incoming{header.flags == kTagged, header.tag, {bytes_.get(), header.length}};
    }
    const bool ends_message = take_part(header);
    taken_ += frame;
    if (ends_message) ++messages_;
    publish();
    if (!ends_message) continue;
    if ((flags_ & kBody) == 0) return Incoming{flags_ == kTagged, tag_, {bytes_.get(), size_}};
    std::byte* const bytes = body_.get();
    return Incoming{true, tag_, {bytes, size_}, std::move(body_)};
  }
  return std::nullopt;  // a long message: the next call reads its rest
}

void RingReader::fail_frame(const FrameHeader& header) const {
  throw ProtocolError(where_ + " wrote a frame of " + std::to_string(header.length) + " bytes, of which only " +
                      std::to_string(peer_written_ - taken_) + " are in the ring");
}

void RingReader::fail_too_long() const {
  throw ProtocolError(where_ + " sent a message over this end's limit of " + std::to_string(limits_.max_message) +
                      " bytes (ShmOptions::max_message, and max_request of a listener)");
}

/// Reads a frame that isn't a whole message. Returns true if it is the last one of a message.
bool RingReader::take_part(const FrameHeader& header) {
  if (header.flags == kRetire && header.length == 0 && !in_message_) {
    owner_.retired(header.tag);
    return false;
  }
  const bool more = (header.flags & kMore) != 0;
  const bool body = (header.flags & kBody) != 0;
  if ((header.flags & ~(kTagged | kMore | kBody)) != 0 || (body && (header.flags & kTagged) == 0) ||
      ((header.flags & kTagged) == 0 && header.tag != 0) || (more && header.length == 0)) {
    throw ProtocolError(where_ + " wrote a frame with flags " + std::to_string(header.flags) + ", tag " +
                        std::to_string(header.tag) + " and " + std::to_string(header.length) +
                        " bytes, which is an invalid combination");
  }
  if (in_message_ && (tag_ != header.tag || flags_ != (header.flags & (kTagged | kBody)))) {
    throw ProtocolError(where_ + " began another message within an unfinished one");
  }
  if (body) {
    take_body_frame(header, more);
  } else {
    if (header.length > limits_.max_message - size_) fail_too_long();
    copy_out(taken_ + sizeof header, grow(size_ + header.length) + size_, header.length);
    size_ += header.length;
  }
  tag_ = header.tag;
  flags_ = header.flags & (kTagged | kBody);
  in_message_ = more;
  return !more;
}

/// Reads a piece of a body directly into the body's own memory. The first piece contains the total length.
void RingReader::take_body_frame(const FrameHeader& header, bool more) {
  std::uint64_t at = taken_ + sizeof header;
  std::uint64_t length = header.length;
  if (!in_message_) {
    if (length < sizeof body_size_) throw ProtocolError(where_ + " began a body without its length");
    copy_out(at, reinterpret_cast<std::byte*>(&body_size_), sizeof body_size_);
    if (body_size_ > limits_.max_body) {
      throw ProtocolError(where_ + " sends a body of " + std::to_string(body_size_) +
                          " bytes, over this end's limit of " + std::to_string(limits_.max_body) +
                          " (ShmOptions::max_body)");
    }
    at += sizeof body_size_;
    length -= sizeof body_size_;
    body_ = limits_.body_memory->allocate(body_size_);
  }
  if (length > body_size_ - size_ || more != (length < body_size_ - size_)) {
    throw ProtocolError(where_ + " announced a body of " + std::to_string(body_size_) + " bytes, but sent " +
                        std::to_string(size_ + length) + (more ? " bytes and more" : " bytes"));
  }
  copy_out(at, body_.get() + size_, length);
  size_ += length;
}

/// Reads how far the peer has written, and checks it.
bool RingReader::reload() {
  const std::uint64_t written = view_.peer->written.load(std::memory_order_acquire);
  if (written - taken_ > view_.in_bytes || written % sizeof(FrameHeader) != 0) {
    throw ProtocolError(where_ + " moved its write cursor to " + std::to_string(written) +
                        ", but the read cursor is at " + std::to_string(taken_) + " and the ring has " +
                        std::to_string(view_.in_bytes) + " bytes");
  }
  peer_written_ = written;
  // These cache lines are in another processor's cache. Prefetched together, they take no longer than one.
  const std::uint64_t end = std::min(written, taken_ + kReadPrefetchBytes);
  for (std::uint64_t at = taken_; at < end; at += kCacheLine) {
    __builtin_prefetch(view_.in + (at & (view_.in_bytes - 1)));
  }
  return written != taken_;
}

void RingReader::answer_request(bool any) noexcept {
  barrier_.light();
  const std::uint64_t requests = view_.peer->requests.load(std::memory_order_acquire);
  if (requests == answered_) [[likely]] {
    return;
  }
  const std::uint64_t taken_goal = view_.peer->taken_goal.load(std::memory_order_relaxed);
  const std::uint64_t messages_goal = view_.peer->messages_goal.load(std::memory_order_relaxed);
  if (any || (taken_goal != 0 && taken_ >= taken_goal) || (messages_goal != 0 && messages_ >= messages_goal)) {
    answered_ = requests;
    if (rings_left_ != 0) --rings_left_;
    owner_.ring();
  }
}

/// grow() where the copy is too small, or larger than is kept for long. Grows only with bytes that have really arrived.
std::byte* RingReader::reallocate(std::size_t size) {
  if (size <= capacity_) {
    if (size > kKeep) {
      small_in_a_row_ = 0;
    } else if (size_ == 0 && ++small_in_a_row_ >= kSmallInARow) {
      bytes_.reset();
      capacity_ = 0;
    }
    if (capacity_ != 0) return bytes_.get();
  }
  small_in_a_row_ = 0;
  const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(size, 4096));
  std::unique_ptr<std::byte[]> larger(new (std::nothrow) std::byte[wanted]);
  if (!larger) throw ResourceError(where_ + ": no memory for a message of " + std::to_string(size) + " bytes");
  if (size_ != 0) std::memcpy(larger.get(), bytes_.get(), size_);
  bytes_ = std::move(larger);
  capacity_ = wanted;
  return bytes_.get();
}

}  // namespace crossdock::transport::shm
