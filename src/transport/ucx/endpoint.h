#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "body_pieces.h"
#include "core/bytes.h"
#include "packed_parts.h"
#include "pieces_ahead.h"
#include "transport/internal/socket_address.h"
#include "worker.h"

namespace crossdock::transport::ucx {

class RemoteKey;

/// Bytes of the peer's memory, and where they go.
struct RemotePart {
  const RemoteKey* key = nullptr;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  void* to = nullptr;
};

/// One end of a connection: the sending half. The worker's progress() moves on what is under way, and so learns of the
/// peer's death. Thread-safe. The destructor closes by force; in a forked child it does nothing, and all other calls
/// throw ForkError.
///
/// No call blocks. A send returns false if there is no room, and then nothing was accepted: try again after progress.
/// A send throws ConnectionError once the connection has failed, ClosedError after finish().
class Endpoint {
 public:
  /// Connects to a listener, in the background: sends are accepted at once, and failure() tells if nobody answers.
  /// Throws ConnectionError, and what UCX's calls throw.
  static std::unique_ptr<Endpoint> connect(std::shared_ptr<Worker> worker, const SocketAddress& address);

  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();

  /// Sends a message of Arrow's protocol without a tag: `head` followed by `tail`, copied.
  bool send_untagged(ByteSpan head, ByteSpan tail) { return send_active(MessageKind::kUntagged, head, tail); }
  /// Sends a message for the peer's Crossdock alone.
  /// The limit of copies doesn't apply.
  bool send_control(ByteSpan head, ByteSpan tail = {}) { return send_active(MessageKind::kControl, head, tail); }
  /// Sends a message with a tag, copied.
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail);
  /// Sends a message with a tag: `parts` one after the other. The bytes are read in place, also after the call, unless
  /// there are many small parts. `keep` keeps them alive until the message has been sent or given up, and is dropped on
  /// a thread that uses or destroys the worker, without a lock. The spans themselves are copied. `ahead`: the peer
  /// knows bodies in pieces, and so many may be ahead of it; null: it doesn't know them.
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, const std::shared_ptr<const void>& keep,
                 PiecesAhead* ahead = nullptr);
  /// Sends a body by a message for each piece, as send_body() does; a null `ahead` doesn't bound them. `memory_type` is
  /// that of the parts; prefixes are in memory of the host. If a part of a device can't be sent, failure() and
  /// body_failed() say so.
  bool send_pieces(const PieceHead& head, std::span<const BodyPiece> pieces, const std::shared_ptr<const void>& keep,
                   PiecesAhead* ahead = nullptr, ucs_memory_type_t memory_type = UCS_MEMORY_TYPE_HOST);
  /// Sends a body from memory of a device, in pieces: `parts`, none of them empty, each followed by zeros up to a
  /// multiple of 64 bytes. The host reads none of them. If they can't be sent, it is as in send_pieces().
  bool send_device_body(std::uint64_t tag, std::span<const ByteSpan> parts, ucs_memory_type_t memory_type,
                        const std::shared_ptr<const void>& keep, PiecesAhead* ahead);
  /// Sets how many bytes of messages may be copied and kept while the network is full. A single message may be larger.
  void limit_copies(std::size_t bytes) noexcept { max_copied_ = bytes; }
  /// Whether there is room for a message of `bytes` that is copied.
  bool room_for(std::size_t bytes) const;

  /// Sends the answer to the peer's request for bytes of our memory, as send_body() does. Returns nothing: the limit of
  /// operations doesn't apply.
  void send_answer(std::uint64_t request, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep);
  /// Asks the peer for bytes of its memory. They are written to `parts`, which `keep` holds, as in send_body(). Returns
  /// the outcome; the worker's progress() moves it on. Null: no room. Throws as the sends do.
  std::shared_ptr<Outcome> ask(std::span<const ReadPart> parts, const std::shared_ptr<const void>& keep);

  /// Begins to read parts of the peer's memory. `keep` holds the memory that is written, as in send_body(). The
  /// worker's progress() moves the reads on. Null: no room. Throws as the sends do; std::logic_error unless the context
  /// allows remote reads.
  std::shared_ptr<Outcome> read(std::span<const RemotePart> parts, const std::shared_ptr<const void>& keep);

  /// Returns the reason why the connection has ended; nothing if it hasn't.
  std::optional<std::string> failure() const;
  /// Whether that is a body in memory of a device, which UCX couldn't send.
  bool body_failed() const;
  /// Whether that is a rejection of one end's UCX by the other's, before any message.
  bool rejected() const;

  /// Returns the outcome of everything that was sent before: it is over once the peer's UCX has received it, and not
  /// before the two ends are connected. Throws as the sends do.
  std::shared_ptr<const Outcome> flush();
  /// Ends sending: flushed() turns true after the worker's progress, once the peer's UCX has received every message, or
  /// is gone. A peer that makes no progress doesn't answer. Destroy the endpoint then: before, messages are lost.
  void finish();
  bool flushed() const;

 private:
  friend class RemoteKey;
  friend class UcxListener;

  /// Creates the endpoint that `params` describe.
  Endpoint(std::shared_ptr<Worker> worker, ucp_ep_params_t params, const std::string& doing);

  bool has_operation() const;
  bool has_room(std::size_t bytes) const;
  void check_usable() const;
  bool send_active(MessageKind kind, ByteSpan head, ByteSpan tail);
  void post_active(MessageKind kind, ByteSpan head, ByteSpan tail);
  void post_with_header(Operation& operation, unsigned id, unsigned flags);
  Operation& begin_piece(const BodyPiece& piece, const std::shared_ptr<const void>& keep);
  std::shared_ptr<const Outcome> post_flush();
  template <typename Start>
  void start(Operation& operation, Start start);

  const std::shared_ptr<Worker> worker_;
  Worker::EndpointState& state_;
  std::size_t max_copied_ = 256 << 10;
  PackedParts packed_;
  std::shared_ptr<const Outcome> flush_;  // of finish()
};

}  // namespace crossdock::transport::ucx
