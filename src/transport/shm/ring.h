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
#include "crossdock/core/bytes.h"
#include "crossdock/transport/body_memory.h"
#include "crossdock/transport/transport.h"

/// A pair of rings, one per direction, over memory that somebody else mapped. Each end writes one piece of memory and
/// reads the other's: what an end writes is its outgoing ring, and how far it has read the incoming one.
/// docs/protocol-shm.md has the layout in bytes.
namespace crossdock::transport::shm {

inline constexpr std::uint64_t kMinRingBytes = 64 << 10;
inline constexpr std::uint64_t kMaxRingBytes = 1 << 30;
inline constexpr std::uint64_t kCacheLine = 64;  // bytes

/// The first page of an end's memory. Only its owner writes it; the peer has it read-only, and trusts no word of it.
/// What is written together stands together, what isn't stands 128 bytes apart: two cache lines, since processors fetch
/// them in pairs.
struct RingHeader {
  /// Bytes of the outgoing ring written, ever. Release.
  alignas(128) std::atomic<std::uint64_t> written{0};
  /// Bytes of the incoming ring taken, ever, and whole messages taken, ever. Release.
  alignas(128) std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> messages_taken{0};
  /// Bits 0 to 31: sleep epoch, odd while the owner sleeps. Bit 32: the owner has closed the connection.
  alignas(128) std::atomic<std::uint64_t> state{0};
  /// How often the owner has asked to be rung. Each request is answered once: as soon as the peer's `taken` has reached
  /// `taken_goal`, or its `messages_taken` has reached `messages_goal` (0: not asked for), or the peer has read the
  /// control socket.
  alignas(128) std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> taken_goal{0};
  std::atomic<std::uint64_t> messages_goal{0};
  std::byte reserved[4096 - 3 * 128 - 24];
};
static_assert(sizeof(RingHeader) == 4096);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::uint64_t kClosedBit = 1ull << 32;

/// What stands before every piece of a message in a ring. Frames start at multiples of 16 and wrap around the ring's
/// end.
struct FrameHeader {
  std::uint32_t length;  ///< Payload bytes; the frame takes 16 + length, rounded up to 16.
  std::uint32_t flags;   ///< kTagged, kMore, kBody; or kRetire alone.
  std::uint64_t tag;     ///< 0 if untagged; with kRetire the region's number.
};
static_assert(sizeof(FrameHeader) == 16);

inline constexpr std::uint32_t kTagged = 1;
inline constexpr std::uint32_t kMore = 2;  ///< The message goes on in the next frame.
/// No message and no payload: from here on, a region's number names nothing.
inline constexpr std::uint32_t kRetire = 4;
/// On every frame of a body: the first one's payload begins with the body's length, 8 bytes, which are not part of it.
inline constexpr std::uint32_t kBody = 8;

/// What a ring needs done outside of it. Called rarely.
class RingOwner {
 public:
  virtual ~RingOwner() = default;
  /// Wakes the peer, which said that it sleeps or waits for room. From either half.
  virtual void ring() noexcept = 0;
  /// A kRetire frame was read. From the receiving half; throws ProtocolError for a number that isn't in use.
  virtual void retired(std::uint64_t number) = 0;
};

/// The two ends' memory as one end sees it.
struct RingView {
  RingHeader* own = nullptr;
  const RingHeader* peer = nullptr;
  std::byte* out = nullptr;
  std::uint64_t out_bytes = 0;  ///< A power of two.
  const std::byte* in = nullptr;
  std::uint64_t in_bytes = 0;  ///< A power of two.
};

/// The sending half. send(), retire(), in_flight() and below_window() belong to the sending thread; the rest may be
/// called by the receiving thread as well.
///
/// Who may touch the ring's private cursors: while `pending_` is false, the sending thread; while it is true, whoever
/// holds `mutex_`. So the usual path takes no lock.
class RingWriter {
 public:
  /// `where` names the peer in errors.
  RingWriter(const RingView& view, Barrier barrier, RingOwner& owner, std::string where);

  /// False: no room; nothing was sent. A message over a quarter of the ring goes in several frames; what doesn't fit
  /// yet is kept and goes with flush(). Throws ConnectionError once the peer has closed, ProtocolError for cursors out
  /// of range. With `corked`, publishes it together with the next message.
  bool send(std::uint32_t flags, std::uint64_t tag, ByteSpan head, ByteSpan tail, bool corked = false);
  /// As send(), with parts that are read in place until the last frame is written; `keep` is dropped then. Throws
  /// InvalidArgumentError for more than `limit` bytes.
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep,
                 std::uint64_t limit);
  /// Says to the peer, after all that was sent before, that a region's number names nothing any more. Results as
  /// send(); not a message.
  bool retire(std::uint16_t number);
  /// Pushes on what is kept back, a bounded number of bytes. True: nothing is.
  bool flush();
  /// Messages sent that the peer hasn't taken.
  std::size_t in_flight();
  /// Bytes that the peer was shown, ever.
  std::uint64_t written() const noexcept { return view_.own->written.load(std::memory_order_relaxed); }

  /// Whether fewer than `window` messages are in flight. Looks at the peer only if they weren't, as last seen.
  bool below_window(std::size_t window);

  /// Whether a send(), retire() or below_window() that returned false, or a flush(), may get further now. No side
  /// effects.
  bool room_came() const noexcept;
  bool wants_room() const noexcept { return refused_.load() != 0 || window_goal_.load() != 0 || pending_.load(); }
  /// Asks the peer to ring once it has made room. Follow with a heavy barrier, then room_came().
  void ask_for_room();
  /// For a second thread that may be asleep in place of the sender: while set, a send() without room asks at once.
  void set_asleep(bool asleep) noexcept { asleep_.store(asleep, std::memory_order_seq_cst); }
  /// True while part of a message is kept back.
  bool pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  bool peer_closed() const noexcept { return (view_.peer->state.load(std::memory_order_acquire) & kClosedBit) != 0; }

 private:
  using Want = std::atomic<std::uint64_t>;

  /// A message of which only some is in the ring, and what keeps the pending. Parts are read in place.
  struct PendingWrite {
    std::vector<ByteSpan> parts{};
    std::shared_ptr<const void> keep{};
    std::size_t part = 0;    // the one that goes on
    std::size_t offset = 0;  // in it
    std::uint64_t left = 0;  // bytes, of all parts
    std::uint32_t flags = 0;
    std::uint64_t tag = 0;
  };

  bool write_frame(std::uint32_t flags, std::uint64_t tag, std::span<const ByteSpan> pieces, std::uint64_t payload,
                   Want& want);
  bool has_room(std::uint64_t bytes);
  bool stalled(std::uint64_t bytes, Want& want);
  std::uint64_t wanted() const noexcept;
  void copy_in(std::uint64_t at, ByteSpan bytes) noexcept;
  void publish();
  void look_at_peer();
  bool begin_large(std::uint32_t flags, std::uint64_t tag, ByteSpan head, ByteSpan tail);
  bool begin(PendingWrite pending);
  bool push_pending();

  const RingView view_;
  const Barrier barrier_;
  RingOwner& owner_;
  const std::string where_;
  const std::uint64_t max_payload_;
  std::uint64_t written_ = 0;
  std::uint64_t peer_taken_ = 0;     // as last read
  std::uint64_t handled_state_ = 0;  // the peer's state that needs nothing more from us
  std::uint64_t sent_ = 0;           // messages
  std::uint64_t peer_messages_ = 0;  // as last read
  Want refused_{0};                  // bytes of room that the last send() lacked; 0: it succeeded
  Want window_goal_{0};              // messages to be taken before the last below_window() turns true; 0: it was true
  Want window_slack_{0};             // how many more messages to skip before the wake-up: not one wake-up for each
  std::atomic<bool> asleep_{false};
  std::mutex request_mutex_;

  std::atomic<bool> pending_{false};
  Want pending_wants_{0};  // bytes of room that the kept-back message lacks
  std::mutex mutex_;
  PendingWrite pending_write_;
};

/// What a RingReader takes.
struct ReadLimits {
  std::uint64_t max_message = 0;  ///< Bytes.
  std::uint64_t max_body = 0;     ///< Bytes.
  std::shared_ptr<BodyMemory> body_memory;
};

/// The receiving half. One thread.
class RingReader {
 public:
  /// What is over the limits is a ProtocolError.
  RingReader(const RingView& view, Barrier barrier, RingOwner& owner, ReadLimits limits, std::string where);

  /// The next message, copied out; valid until the next call. Throws ProtocolError for frames or cursors that break the
  /// rules.
  std::optional<Incoming> receive();
  /// Where bodies go from the next one on.
  void receive_into(std::shared_ptr<BodyMemory> memory) noexcept { limits_.body_memory = std::move(memory); }
  /// Whether the peer has written on. No side effects.
  bool has_data() const noexcept { return view_.peer->written.load(std::memory_order_acquire) != taken_; }
  /// True after the first frames of a message whose last hasn't come.
  bool in_message() const noexcept { return in_message_; }
  /// Bytes read, and written by the peer so far (unchecked), ever: for what must happen at a place in the ring.
  std::uint64_t taken() const noexcept { return taken_; }
  std::uint64_t peer_written() const noexcept { return view_.peer->written.load(std::memory_order_acquire); }
  /// Rings if the peer has asked to be rung, and what it waits for is there; or, with `any`, in any case.
  void answer_request(bool any) noexcept;

 private:
  std::optional<Incoming> take_frames();
  bool reload();
  void publish() noexcept;
  void copy_out(std::uint64_t at, std::byte* to, std::size_t size) const noexcept;
  std::byte* grow(std::size_t size);
  void take_body_frame(const FrameHeader& header, bool more);

  const RingView view_;
  const Barrier barrier_;
  RingOwner& owner_;
  ReadLimits limits_;
  const std::string where_;
  std::uint64_t taken_ = 0;
  std::uint64_t peer_written_ = 0;  // as last read
  std::uint64_t messages_ = 0;
  std::uint64_t answered_ = 0;  // the peer's requests that we have rung for
  int rings_left_ = 0;          // in this receive()
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  std::shared_ptr<std::byte> body_;  // of a kBody message
  std::uint64_t body_size_ = 0;
  std::uint32_t small_in_a_row_ = 0;
  bool in_message_ = false;
  std::uint32_t flags_ = 0;
  std::uint64_t tag_ = 0;
};

}  // namespace crossdock::transport::shm
