#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/bytes.h"
#include "dissociated/wire.h"
#include "ipc/metadata.h"

namespace crossdock::dissociated {

/// The client's side of one stream ("Client Sequence"): puts messages in order, joins metadata with bodies, and detects
/// the end. Metadata and bodies may arrive in any order relative to each other, even with End of Stream first. Pure.
/// Use it from one thread at a time. If messages arrive in order, it allocates nothing in the steady state.
class Receiver {
 public:
  struct Options {
    std::uint32_t max_ahead = 4096;  ///< How far a sequence number may be ahead of the next one due: 1 to 2^31.
    /// Limit of the bytes that wait for their turn, including the next message's own.
    std::uint64_t max_buffered_bytes = 256ull << 20;
    ipc::Limits limits;
  };

  Receiver();
  /// Throws InvalidArgumentError for a max_ahead out of range.
  explicit Receiver(const Options& options);
  ~Receiver();
  Receiver(Receiver&&) noexcept;
  Receiver& operator=(Receiver&&) noexcept;

  /// Takes an untagged message, by copy. Checks its prefix, its size, and its number (already taken, given twice, at or
  /// past the end, too far ahead). Throws ProtocolError or InvalidDataError: then end the connection.
  /// With two connections, the one without the error doesn't stop at once. Messages at or past the number of an error
  /// are therefore dropped. If both connections end the stream, and the second ending is an error or follows one, the
  /// first error counts.
  void on_untagged(ByteSpan message);
  /// Takes a tagged message. Only the low 32 bits of the tag are used for matching. With an owner nothing is copied:
  /// the owner keeps `body` unchanged and is returned as Item::body_owner. The body then counts for max_buffered_bytes
  /// only if it has to wait for other numbers. Without an owner the body is copied. Throws the errors of on_untagged().
  void on_tagged(std::uint64_t tag, ByteSpan body, std::shared_ptr<const void> owner = nullptr);
  /// Tells the receiver that the connection has ended and nothing more will arrive. Complete messages can still be
  /// taken with next(). `reason` becomes a part of the error that next() throws.
  void on_disconnected(std::string_view reason = {});

  struct Item {
    enum class Kind : std::uint8_t { kMessage, kEnd, kError };
    Kind kind = Kind::kMessage;
    std::uint32_t sequence = 0;
    ipc::MessageKind message_kind = ipc::MessageKind::kSchema;  ///< kMessage only.
    ByteSpan metadata;                      ///< kMessage: the flatbuffer, 8-aligned. kError: the reason, UTF-8.
    const ipc::Message* message = nullptr;  ///< kMessage: `metadata`, parsed and verified once; else null.
    /// Whether `metadata` is, byte for byte, that of the message before. So all that was derived from it still holds.
    /// It is so in streams of batches of equal length and without nulls.
    bool repeats = false;
    BodyType body_type = BodyType::kPacked;  ///< Meaningful if the message has a body.
    ByteSpan body;  ///< kPacked: exactly body_length() bytes of the message; kRemote: as received.
    std::shared_ptr<const void> body_owner;  ///< The owner given to on_tagged(); null if the body was copied.
  };
  /// Returns the next message in sequence, with its body; null if it isn't complete yet. The item is valid until the
  /// next call of a non-const member. kEnd is returned after everything below its number. kError is returned as soon as
  /// no complete message in order is left, because the missing ones will never be sent.
  ///
  /// Throws ProtocolError (the first message isn't a schema or a later one is, a schema has a body, a packed body
  /// doesn't have the size that the metadata gives), the errors of ipc::Message::parse(), and, after on_disconnected()
  /// without an End of Stream, TruncatedStreamError, whose text names the missing number and the reason.
  const Item* next();

  /// Returns the message that is due next, verified, if its metadata has arrived and next() has returned null for want
  /// of its body; else null. Valid until the next call of a non-const member.
  const ipc::Message* due_message() const noexcept;

  bool finished() const noexcept;  ///< kEnd or kError was taken.
  /// Returns whether the metadata of the next message has arrived and only its body is missing. With two connections,
  /// this says which one to read.
  bool due_has_metadata() const noexcept;

  /// For tests of the roll-over: sets the number that is due next, as if all before it had been taken. Only while no
  /// message is waiting.
  void set_next_sequence(std::uint32_t sequence);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::dissociated
