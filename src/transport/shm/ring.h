#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "barrier.h"
#include "core/bytes.h"
#include "transport/body_memory.h"
#include "transport/transport.h"

/// A pair of rings, one for each direction, in memory that is already mapped. Each end writes its own piece of memory
/// and reads the other's. An end writes its outgoing ring, and how far it has read the incoming one.
/// docs/reference/protocol-shm.md has the layout in bytes.
namespace crossdock::transport::shm {

inline constexpr std::uint64_t kMinRingBytes = 64 << 10;
inline constexpr std::uint64_t kMaxRingBytes = 1 << 30;
inline constexpr std::uint64_t kCacheLine = 64;  // bytes

/// The first page of an end's memory. Only its owner writes it. The peer maps it read-only and trusts none of its
/// values. Fields that are written together are next to each other; others are 128 bytes apart. This is two cache
/// lines, because processors fetch cache lines in pairs.
struct RingHeader {
  /// Bytes written to the outgoing ring, in total. Release.
  alignas(128) std::atomic<std::uint64_t> written{0};
  /// Bytes and whole messages taken from the incoming ring, in total. Release.
  alignas(128) std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> messages_taken{0};
  /// Bits 0 to 31: sleep epoch, odd while the owner sleeps. Bit 32: the owner has closed the connection.
  alignas(128) std::atomic<std::uint64_t> state{0};
  /// How often the owner has asked to be rung. Each request is answered once: as soon as the peer's `taken` has reached
  /// `taken_goal`, or its `messages_taken` has reached `messages_goal` (0: not requested), or the peer has read the
  /// control socket.
  alignas(128) std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> taken_goal{0};
  std::atomic<std::uint64_t> messages_goal{0};
  std::byte reserved[4096 - 3 * 128 - 24];
};
static_assert(sizeof(RingHeader) == 4096);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::uint64_t kClosedBit = 1ull << 32;

/// The header before every piece of a message in a ring. Frames start at multiples of 16 and may wrap around the end of
/// the ring.
struct FrameHeader {
  std::uint32_t length;  ///< Payload bytes; the frame takes 16 + length, rounded up to 16.
  std::uint32_t flags;   ///< kTagged, kMore, kBody; or kRetire alone.
  std::uint64_t tag;     ///< 0 if untagged; with kRetire, the number of the region.
};
static_assert(sizeof(FrameHeader) == 16);

inline constexpr std::uint32_t kTagged = 1;
inline constexpr std::uint32_t kMore = 2;  ///< The message continues in the next frame.
/// No message and no payload: from here on, the number names no region.
inline constexpr std::uint32_t kRetire = 4;
/// Set on every frame of a body. The first frame's payload begins with the body's length, 8 bytes, which don't count as
/// a part of the body.
inline constexpr std::uint32_t kBody = 8;

/// Actions outside of the ring. Called rarely.
class RingOwner {
 public:
  virtual ~RingOwner() = default;
  /// Wakes the peer, which has announced that it sleeps or waits for room. Called by either half.
  virtual void ring() noexcept = 0;
  /// Called by the receiving half after it has read a kRetire frame. Throws ProtocolError for a number that isn't in
  /// use.
  virtual void retired(std::uint64_t number) = 0;
};

/// The memory of both ends, as mapped by one end.
struct RingView {
  RingHeader* own = nullptr;
  const RingHeader* peer = nullptr;
  std::byte* out = nullptr;
  std::uint64_t out_bytes = 0;  ///< A power of two.
  const std::byte* in = nullptr;
  std::uint64_t in_bytes = 0;  ///< A power of two.
};

/// The sending half. Only the sending thread may call send(), retire(), in_flight() and below_window(); the receiving
/// thread may call the other functions, too.
///
/// Access to the ring's private cursors: by the sending thread while `pending_` is false; by the holder of `mutex_`
/// while it is true. So the usual path takes no lock.
class RingWriter {
 public:
  /// `where` names the peer in errors.
  RingWriter(const RingView& view, Barrier barrier, RingOwner& owner, std::string where);

  /// Returns false if there was no room; then nothing was sent. A message over a quarter of the ring is sent in several
  /// frames. The part that doesn't fit yet is kept, and flush() sends it later. Throws ConnectionError once the peer
  /// has closed the connection, ProtocolError for cursors out of range. With `corked`, the message is published
  /// together with the next one.
  bool send(std::uint32_t flags, std::uint64_t tag, ByteSpan head, ByteSpan tail, bool corked = false);
  /// Like send(), but reads the parts in place until the last frame is written; then it drops `keep`. Throws
  /// InvalidArgumentError for more than `limit` bytes.
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep,
                 std::uint64_t limit);
  /// Tells the peer, after all earlier messages, that the number no longer names a region. Returns and throws like
  /// send(). Doesn't count as a message.
  bool retire(std::uint16_t number);
  /// Writes more of a message that was kept, a bounded number of bytes. Returns true if nothing is left of it.
  bool flush();
  /// Returns the number of messages that were sent and that the peer hasn't taken yet.
  std::size_t in_flight();
  /// Bytes published to the peer, in total.
  std::uint64_t written() const noexcept { return view_.own->written.load(std::memory_order_relaxed); }

  /// Whether fewer than `window` messages are in flight. Reads the peer's cursor only if the last known value isn't
  /// enough.
  bool below_window(std::size_t window);

  /// Whether a send(), retire() or below_window() that returned false, or a flush(), may make progress now. No side
  /// effects.
  bool room_came() const noexcept;
  bool wants_room() const noexcept { return refused_.load() != 0 || window_goal_.load() != 0 || pending_.load(); }
  /// Asks the peer to ring once it has made room. Then execute a heavy barrier, and check room_came().
  void ask_for_room();
  /// For a second thread that may sleep in place of the sender: while this is set, a send() without room asks for room
  /// at once.
  void set_asleep(bool asleep) noexcept { asleep_.store(asleep, std::memory_order_seq_cst); }
  /// True while part of a message is kept.
  bool pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  bool peer_closed() const noexcept { return (view_.peer->state.load(std::memory_order_acquire) & kClosedBit) != 0; }

 private:
  using Want = std::atomic<std::uint64_t>;

  /// A message of which only a part is in the ring, and the owner of the rest. The parts are read in place.
  struct PendingWrite {
    std::vector<ByteSpan> parts{};
    std::shared_ptr<const void> keep{};
    std::size_t part = 0;    // the part that is sent next
    std::size_t offset = 0;  // offset in this part
    std::uint64_t left = 0;  // bytes of all parts that are left
    std::uint32_t flags = 0;
    std::uint64_t tag = 0;
  };

  bool write_frame(std::uint32_t flags, std::uint64_t tag, std::span<const ByteSpan> pieces, std::uint64_t payload,
                   Want& want);
  bool make_way(std::uint64_t bytes, Want& want) {
    return view_.out_bytes - (written_ - peer_taken_) >= bytes || has_room(bytes) || record_shortage(bytes, want);
  }
  void write_header(std::uint32_t flags, std::uint64_t tag, std::uint64_t payload) noexcept;
  bool has_room(std::uint64_t bytes);
  bool record_shortage(std::uint64_t bytes, Want& want);
  std::uint64_t wanted() const noexcept;
  void copy_in(std::uint64_t at, ByteSpan bytes) noexcept;
  void publish();
  void look_at_peer();
  void handle_state(std::uint64_t state);
  bool begin_large(std::uint32_t flags, std::uint64_t tag, ByteSpan head, ByteSpan tail);
  bool begin(PendingWrite pending);
  bool push_pending();

  const RingView view_;
  const Barrier barrier_;
  RingOwner& owner_;
  const std::string where_;
  const std::uint64_t max_payload_;
  std::uint64_t written_ = 0;
  std::uint64_t prefetched_ = 0;     // up to where cache lines were asked for
  std::uint64_t peer_taken_ = 0;     // when last read
  std::uint64_t handled_state_ = 0;  // a state of the peer for which nothing is left to do
  std::uint64_t sent_ = 0;           // messages
  std::uint64_t peer_messages_ = 0;  // when last read
  Want refused_{0};                  // bytes of room that the last send() needed; 0: it succeeded
  Want window_goal_{0};   // messages that must be taken before below_window() returns true; 0: it returned true
  Want window_slack_{0};  // more messages to be taken before the wake-up, so that not each one causes one
  std::atomic<bool> asleep_{false};
  std::mutex request_mutex_;

  std::atomic<bool> pending_{false};
  Want pending_wants_{0};  // bytes of room that the kept message needs
  std::mutex mutex_;
  PendingWrite pending_write_;
};

/// Limits and memory of a RingReader.
struct ReadLimits {
  std::uint64_t max_message = 0;  ///< Bytes.
  std::uint64_t max_body = 0;     ///< Bytes.
  std::shared_ptr<BodyMemory> body_memory;
};

/// The receiving half. Use it from one thread.
class RingReader {
 public:
  /// Messages over the limits cause a ProtocolError.
  RingReader(const RingView& view, Barrier barrier, RingOwner& owner, ReadLimits limits, std::string where);

  /// Returns a copy of the next message, valid until the next call. Throws ProtocolError for invalid frames or cursors.
  std::optional<Incoming> receive();
  /// Sets the memory for bodies, from the next body on.
  void receive_into(std::shared_ptr<BodyMemory> memory) noexcept { limits_.body_memory = std::move(memory); }
  /// Whether the peer has written more. No side effects.
  bool has_data() const noexcept { return view_.peer->written.load(std::memory_order_acquire) != taken_; }
  /// True after the first frames of a message whose last frame hasn't arrived.
  bool in_message() const noexcept { return in_message_; }
  /// Bytes read so far, and bytes written by the peer so far (unchecked), in total. Used for actions that must happen
  /// at a certain position in the ring.
  std::uint64_t taken() const noexcept { return taken_; }
  std::uint64_t peer_written() const noexcept { return view_.peer->written.load(std::memory_order_acquire); }
  /// Rings if the peer has asked for it and its condition is met; with `any`, rings even if it isn't met.
  void answer_request(bool any) noexcept;

 private:
  std::optional<Incoming> take_frames();
  bool take_part(const FrameHeader& header);
  [[noreturn]] void fail_frame(const FrameHeader& header) const;
  [[noreturn]] void fail_too_long() const;
  bool reload();
  void publish() noexcept;
  void copy_out(std::uint64_t at, std::byte* to, std::size_t size) const noexcept;
  std::byte* grow(std::size_t size);
  std::byte* reallocate(std::size_t size);
  void take_body_frame(const FrameHeader& header, bool more);

  const RingView view_;
  const Barrier barrier_;
  RingOwner& owner_;
  ReadLimits limits_;
  const std::string where_;
  std::uint64_t taken_ = 0;
  std::uint64_t peer_written_ = 0;  // when last read
  std::uint64_t messages_ = 0;
  std::uint64_t answered_ = 0;  // the peer's requests that were answered by ringing
  int rings_left_ = 0;          // in the current receive()
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  std::shared_ptr<std::byte> body_;  // memory of a kBody message
  std::uint64_t body_size_ = 0;
  std::uint32_t small_in_a_row_ = 0;
  bool in_message_ = false;
  std::uint32_t flags_ = 0;
  std::uint64_t tag_ = 0;
};

}  // namespace crossdock::transport::shm
