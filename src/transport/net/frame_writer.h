#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "byte_stream.h"
#include "core/bytes.h"
#include "frames.h"
#include "transport/internal/refusals.h"
#include "transport/piece_buffer.h"

namespace crossdock::transport::net {

/// Encodes messages as bytes. Bytes that the stream accepts at once are never copied. Of the others, those of small
/// messages are copied, and those of bodies are not. A body's checksum is computed piece by piece, each immediately
/// before it is offered to the stream. If the body's memory is a file, and this process reads it, for the checksum or
/// in the stream, each piece is first copied, and the copy is summed and sent. Thread-safe: the receiving half sends
/// acknowledgements, and sends more of what the other half has left.
///
/// No call throws because the stream has ended: the calls then do nothing, and ended() is true. After std::bad_alloc,
/// and after ResourceError (send_body() had no memory for a copy), no byte of the frame was sent or queued, and the
/// call may be repeated.
class FrameWriter {
 public:
  /// Keeps up to `queue_bytes` of messages while the stream is full, or a single message of any size. `touches_memory`:
  /// as SocketStream says.
  FrameWriter(ByteStream& stream, std::size_t queue_bytes, Checksums checksums, bool touches_memory = false)
      : stream_(stream),
        queue_limit_(queue_bytes),
        checksums_(checksums),
        touches_memory_(touches_memory || checksums == Checksums::kEach) {}
  ~FrameWriter() = default;
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

  /// Returns false if there is no room, and then nothing was accepted. With `corked`, the message waits for the next
  /// one, or for push().
  bool send(FrameKind kind, std::uint64_t tag, ByteSpan head, ByteSpan tail, bool corked = false);
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::uint64_t size,
                 std::shared_ptr<const void> keep);
  /// Tells the peer that `messages` were taken in total: now, or together with the next frame.
  void taken(std::uint64_t messages, bool now);
  /// Tells the peer the window: now, or together with the next frame. A repeated call has no effect.
  void window(std::uint64_t messages, bool now);
  void goodbye();
  /// Sends more of the pending bytes, a bounded number. Returns true if none are left.
  bool push();

  bool pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  /// Bytes are pending although the stream wasn't full: push() makes progress at once.
  bool has_more() const noexcept { return more_.load(std::memory_order_relaxed); }
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// The stream has ended because the memory of a body isn't readable any more.
  bool source_lost() const noexcept { return source_lost_.load(std::memory_order_acquire); }
  /// A send() found no room, and there may be room now. For the receiving half.
  bool room_came() const noexcept {
    if (!refusals_.pending() || !room_.load(std::memory_order_relaxed)) return false;
    refusals_.tell();
    return true;
  }
  /// Called by the receiving half once the caller knows of the room that room_came() has told of.
  void forget_refusals() noexcept { refusals_.forget(); }
  /// Messages sent in total.
  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_acquire); }
  /// Bytes that the stream has accepted in total.
  std::uint64_t pushed() const noexcept { return pushed_.load(std::memory_order_relaxed); }

 private:
  /// Objects that are destroyed after the lock is released.
  using Dropped = std::shared_ptr<const void>;

  std::size_t queued() const noexcept { return queue_.size() - queue_begin_; }
  bool has_body() const noexcept { return keep_body_; }
  void push_locked(Dropped* dropped);
  bool in_pieces() const noexcept { return checksums_ == Checksums::kEach || copy_ != nullptr; }
  bool prepare_next_piece();
  void sum_in_place() noexcept;
  bool copy_next();
  void consume(std::size_t bytes, Dropped* dropped);
  std::size_t add_control(std::byte* to);
  void queue_control();
  void make_room(std::size_t bytes);
  void enqueue(ByteSpan bytes) noexcept;
  void empty_queue() noexcept;
  void end(int error, Dropped* dropped) noexcept;
  void update() noexcept;

  ByteStream& stream_;
  const std::size_t queue_limit_;
  const Checksums checksums_;
  const bool touches_memory_;  // this process reads the memory of bodies: for their checksums, or in the stream
  std::atomic<bool> pending_{false};
  std::atomic<bool> more_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> source_lost_{false};  // set before ended_
  Refusals refusals_;
  std::atomic<bool> room_{true};
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> pushed_{0};
  std::atomic<std::uint64_t> taken_{0};  // set by the receiving half

  std::mutex mutex_;  // guards the members below
  // Sent first, before the body.
  std::vector<std::byte> queue_;
  std::size_t queue_begin_ = 0;
  bool full_ = false;    // the stream accepted less than it was last offered
  bool corked_ = false;  // the queue ends with a message that waits for the next one
  bool keep_body_ = false;
  std::vector<ByteSpan> parts_;  // of the body and its trailer
  std::size_t part_ = 0;
  std::size_t part_offset_ = 0;
  std::uint64_t body_size_ = 0;
  Trailer trailer_{};
  // If the body is sent in pieces: the checksum so far, the position at which the next piece begins, and how many bytes
  // before that position are still to be sent.
  std::uint32_t sum_ = 0;
  std::size_t sum_part_ = 0;
  std::size_t sum_offset_ = 0;
  std::size_t summed_ = 0;
  std::unique_ptr<PieceBuffer> copy_;  // of a body in a file: the last piece
  std::shared_ptr<const void> keep_;
  std::uint64_t told_taken_ = 0;
  bool tell_taken_ = false;  // once the body was sent
  std::uint64_t window_ = 0;
  std::uint64_t told_window_ = 0;
};

}  // namespace crossdock::transport::net
