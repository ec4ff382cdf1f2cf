#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "byte_stream.h"
#include "crossdock/core/bytes.h"
#include "frames.h"
#include "piece_buffer.h"

namespace crossdock::transport::tcp {

/// Makes bytes of messages. What the stream takes at once is never copied; of small messages the rest is, of bodies
/// nothing. A body's checksum is computed piece by piece, each just before it is offered to the stream; where a file
/// lies behind the body, of a copy, which is what is sent then. Thread-safe: the half that receives sends what it has
/// taken, and pushes on what the other half left.
///
/// No call throws when the stream has ended: they do nothing then, and ended() is true. On std::bad_alloc, and where
/// send_body() has no memory for a copy (ResourceError), nothing of a frame was sent or queued, and the call may be
/// made again.
class FrameWriter {
 public:
  /// Up to `queue_bytes` of messages are kept while the stream is full; one message more if nothing else is.
  FrameWriter(ByteStream& stream, std::size_t queue_bytes, Checksums checksums)
      : stream_(stream), queue_limit_(queue_bytes), checksums_(checksums) {}
  ~FrameWriter() = default;
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

  /// False: no room; nothing of it was taken. With `corked` it waits for the next message, or for push().
  bool send(FrameKind kind, std::uint64_t tag, ByteSpan head, ByteSpan tail, bool corked = false);
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::uint64_t size,
                 std::shared_ptr<const void> keep);
  /// Tells the peer that `messages` were taken, ever: now, or along with what is sent next.
  void taken(std::uint64_t messages, bool now);
  /// Tells the peer the window: along with what is sent next, or now. A second time does nothing.
  void window(std::uint64_t messages, bool now);
  void goodbye();
  /// Pushes on what is pending, a bounded number of bytes. True: nothing is.
  bool push();

  bool pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  /// Some is pending although the stream wasn't full: push() gets further at once.
  bool has_more() const noexcept { return more_.load(std::memory_order_relaxed); }
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// It has ended because the memory of a body can't be read any more.
  bool source_lost() const noexcept { return source_lost_.load(std::memory_order_acquire); }
  /// A send() found no room, and may find some now.
  bool room_came() const noexcept {
    return refused_.load(std::memory_order_relaxed) && room_.load(std::memory_order_relaxed);
  }
  /// The caller knows of the room.
  void forget_refusal() noexcept;
  /// Messages that were sent, ever.
  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_acquire); }
  /// Bytes that the stream has taken, ever.
  std::uint64_t pushed() const noexcept { return pushed_.load(std::memory_order_relaxed); }

 private:
  /// What is dropped once the lock is released.
  using Dropped = std::shared_ptr<const void>;

  std::size_t queued() const noexcept { return queue_.size() - queue_begin_; }
  bool has_body() const noexcept { return keep_body_; }
  void push_locked(Dropped* dropped);
  bool sum_next_piece();
  void sum_in_place() noexcept;
  bool sum_copy();
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
  std::atomic<bool> pending_{false};
  std::atomic<bool> more_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> source_lost_{false};  // before ended_
  std::atomic<bool> refused_{false};
  std::atomic<bool> room_{true};
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> pushed_{0};
  std::atomic<std::uint64_t> taken_{0};  // said by the receiving half

  std::mutex mutex_;  // over the rest
  // Goes out first, then the body.
  std::vector<std::byte> queue_;
  std::size_t queue_begin_ = 0;
  bool full_ = false;    // the stream took less than it was offered last
  bool corked_ = false;  // the queue ends with a message that waits for another
  bool keep_body_ = false;
  std::vector<ByteSpan> parts_;  // the body's, and its trailer
  std::size_t part_ = 0;
  std::size_t part_offset_ = 0;
  std::uint64_t body_size_ = 0;
  Trailer trailer_{};
  // With checksums: the checksum so far, where it goes on, and how many bytes before that are still to be sent.
  std::uint32_t sum_ = 0;
  std::size_t sum_part_ = 0;
  std::size_t sum_offset_ = 0;
  std::size_t summed_ = 0;
  std::unique_ptr<PieceBuffer> copy_;  // of a body behind which there is a file: what was summed last
  std::shared_ptr<const void> keep_;
  std::uint64_t told_taken_ = 0;
  bool tell_taken_ = false;  // as soon as the body is out
  std::uint64_t window_ = 0;
  std::uint64_t told_window_ = 0;
};

}  // namespace crossdock::transport::tcp
