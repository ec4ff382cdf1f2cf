#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "body_pieces.h"
#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "transport/body_memory.h"
#include "worker_handle.h"

namespace crossdock::transport::ucx {

/// The kind of a message. The first two are active messages, and their numbers those of the messages' ids.
enum class MessageKind : std::uint8_t {
  kUntagged = 0,  ///< Of Arrow's protocol.
  kControl = 1,   ///< Between two Crossdock ends.
  kTagged = 2,    ///< Of Arrow's protocol.
};

/// The largest message that a peer with UCX's own settings sends whole (70,000 bytes in 1.13, 1 MiB in 1.22).
inline constexpr std::uint64_t kMaxEager = 1 << 20;

/// What is accepted from the peer. Sizes are checked before memory of ours is allocated. UCX allocates its own for a
/// message that isn't sent by rendezvous, as much as the peer says, before it tells of the message. The peer decides
/// which messages those are.
struct ReceiveLimits {
  std::uint64_t max_untagged = 0;
  std::uint64_t max_control = 0;
  std::uint64_t max_tagged = 0;
  std::uint64_t max_in_pieces = 0;  ///< Of a body that comes in pieces; 0: none may.
  /// Messages, and bytes of them, that may wait to be taken. While more wait, nothing more is read from the network. A
  /// single message may be larger.
  std::size_t queue_messages = 1024;
  std::uint64_t queue_bytes = 64ull << 20;
  /// The most that a tagged message counts for before it is begun, see kMaxEager. A larger one is taken to come by
  /// rendezvous.
  std::uint64_t max_eager = kMaxEager;
  /// Pieces of bodies that the peer may have told of by rendezvous, and whose bytes haven't come.
  std::size_t queue_pieces = kMaxUnfetched;
};

/// A message that was received whole. `bytes` are valid as long as the owner is held, on any thread. Those of a tagged
/// message are in memory of the worker's BodyMemory if that takes its tag, else in the host's; others are 16-aligned.
struct Received {
  MessageKind kind = MessageKind::kUntagged;
  std::uint64_t tag = 0;
  ByteSpan bytes;
  std::shared_ptr<const void> owner;
};

/// The messages of one worker, in the order in which they arrived. Untagged and control messages come out in the order
/// in which they were sent, and so do tagged ones; between the two, the order is that of sending if UCX uses one lane.
/// A body in pieces is a tagged message that counts as arrived with its first piece.
///
/// Use it under the worker's lock. UCX's call-backs use it while the worker makes progress, so it must live until the
/// worker is destroyed.
class Inbox {
 public:
  /// `where` names the peer in errors. Both references must outlive this.
  Inbox(WorkerHandle& worker, const ReceiveLimits& limits, const std::string& where);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Collects tagged messages that have arrived, and begins to receive messages for which there is room.
  void collect() noexcept;
  /// Returns the next message if it has arrived whole. Throws ProtocolError after the last message before one over a
  /// limit, or before one that isn't there while too much waits behind it; ConnectionError if the next message was cut
  /// off; ResourceError if there was no memory for it. After an error, throws it again.
  std::optional<Received> take();
  /// Returns the kind and the tag of the message that take() returns next; nothing if it has none.
  std::optional<std::pair<MessageKind, std::uint64_t>> next() const noexcept;
  /// Whether take() has a message or an error.
  bool ready() const noexcept;
  /// Whether the limits of the queue are reached, and take() has a message or an error.
  bool full() const noexcept;
  /// Whether a message has arrived in part.
  bool in_message() const noexcept { return !entries_.empty() && !ready(); }
  /// The sizes of the messages that UCX writes to our memory.
  std::uint64_t receiving_bytes() const noexcept { return receiving_bytes_; }

  /// Sets the memory for tagged messages, from the next one that is begun; null: a pool of its own.
  void receive_into(std::shared_ptr<BodyMemory> memory) noexcept {
    if (memory == nullptr) memory = pool_;
    body_memory_ = std::move(memory);
  }
  /// Sets the limits for messages from now on.
  void limit(const ReceiveLimits& limits) noexcept { limits_ = limits; }
  /// Throws the error that ends the queue, if there is one, whatever messages come before it.
  void throw_failure() const;
  /// Ends the queue with an error, after the messages that have arrived.
  void fail(ErrorCode code, const std::string& text);
  void fail_for_memory() noexcept;
  /// Ends the queue with the exception that is being handled. Call it in a catch block.
  void fail_for_current_exception() noexcept;
  /// Returns messages that weren't begun to UCX, and accepts no more. Call it before the worker is destroyed.
  void close() noexcept;

 private:
  struct Entry;
  /// A piece of a body that isn't in the body's memory yet. Its address doesn't change: UCX's call-back has it.
  struct Piece {
    Entry* body = nullptr;
    std::uint64_t offset = 0;
    std::vector<std::byte> early{};  ///< Its first bytes, which are here.
    bool rendezvous = false;         ///< UCX has told of the rest, and fetches it when it is begun.
    std::uint64_t size = 0;          ///< Of the rest.
    void* held = nullptr;            ///< The rest, which UCX has. Null: none, or UCX writes it to the body's memory.
    std::list<Piece>::iterator self{};
  };

  /// A message. Its address doesn't change: UCX's call-back has it.
  struct Entry {
    /// Says what the entry counts for, too: only change() and hold() change either.
    enum class State : std::uint8_t {
      kNew,        ///< Counts for nothing.
      kWaiting,    ///< UCX has it. `held` names it. Counts for `held_bytes`.
      kArrived,    ///< It is in `memory`, behind one that waits, or without room. Counts for `held_bytes`.
      kReceiving,  ///< UCX writes it to `memory`. From here on, it is begun, and counts for its size.
      kComplete,
      kFailed,   ///< It was cut off.
      kDropped,  ///< Was taken, or released to UCX. Counts for nothing.
    };
    MessageKind kind;
    State state = State::kNew;
    std::uint64_t tag = 0;
    std::uint64_t size = 0;
    void* held = nullptr;
    std::uint64_t held_bytes = 0;  ///< What it takes of UCX's memory, or of ours before it is begun.
    std::shared_ptr<std::byte> memory{};
    std::shared_ptr<BodyMemory> on_device{};  ///< What `memory` was allocated from; null: it is the host's.
    ucs_memory_type_t memory_type = UCS_MEMORY_TYPE_HOST;
    ucs_status_t status = UCS_OK;
    Inbox* inbox = nullptr;
    bool in_pieces = false;
    std::uint64_t arrived = 0;  ///< Bytes of the pieces that UCX has told of.
    std::uint64_t written = 0;  ///< Bytes of those that are in `memory`.
    std::list<Piece> pieces{};  ///< The others.
  };

  static ucs_status_t on_message(void* self, void* data, std::size_t size, const ucp_am_recv_param_t* param,
                                 MessageKind kind) noexcept;
  static ucs_status_t on_piece(void* self, const void* header, std::size_t header_size, void* data, std::size_t size,
                               const ucp_am_recv_param_t* param) noexcept;
  static void end(Entry& entry, ucs_status_t status) noexcept;
  template <MessageKind kKind>
  void handle();
  ucs_status_t add(MessageKind kind, void* data, std::size_t size, bool rendezvous);
  ucs_status_t add_piece(ByteSpan header, void* data, std::size_t size, bool rendezvous);
  Entry* body_of(ByteSpan header, std::uint64_t length);
  bool put(Entry& body, std::uint64_t offset, ByteSpan first, ByteSpan second) noexcept;
  void place(Piece& piece);
  void count_arrived(Entry& body, std::uint64_t bytes) noexcept;
  static void end_piece(Piece& piece, ucs_status_t status) noexcept;
  static void wrote(Entry& body, std::uint64_t bytes) noexcept;
  void probe();
  bool accepts(const char* what, std::uint64_t size, std::uint64_t limit);
  bool accepts_more();
  void change(Entry& entry, Entry::State to) noexcept;
  static void hold(Entry& entry, std::uint64_t bytes) noexcept;
  void begin_waiting();
  bool has_room_for(const Entry& entry) const noexcept;
  void begin(Entry& entry);
  void begin_whole(Entry& entry);
  void release(Entry& entry) noexcept;
  void drop_tagged(ucp_tag_message_h message) noexcept;
  void cut(const Error& error);
  bool cut_off() const noexcept;
  static bool whole(const Entry& entry) noexcept;
  std::uint64_t limit_of(MessageKind kind) const noexcept;

  WorkerHandle& worker_;
  ReceiveLimits limits_;
  const std::string& where_;
  const std::shared_ptr<BodyMemory> pool_ = make_body_pool();
  std::shared_ptr<BodyMemory> body_memory_ = pool_;
  std::deque<Entry> entries_;
  Entry* open_ = nullptr;      // the body whose pieces haven't all arrived
  std::size_t unfetched_ = 0;  // pieces by rendezvous that haven't ended
  // What the entries count for, see Entry::State:
  std::size_t begun_ = 0;              // the first entries, up to the first that isn't begun
  std::uint64_t begun_bytes_ = 0;      // their sizes: memory of ours
  std::size_t receiving_ = 0;          // those of them that UCX writes
  std::uint64_t receiving_bytes_ = 0;  // their sizes
  std::uint64_t held_bytes_ = 0;       // of the others: memory of UCX's, or of ours

  bool closed_ = false;                                       // nothing more is accepted
  bool overflowed_ = false;                                   // because too much waits
  std::optional<std::pair<ErrorCode, std::string>> failure_;  // after all entries
};

}  // namespace crossdock::transport::ucx
