#pragma once

#include <cstdint>
#include <memory>

#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/dissociated/wire.h"
#include "crossdock/ipc/metadata.h"

namespace crossdock::dissociated {

/// The client's side of one stream ("Client Sequence"): puts messages in order, joins metadata with bodies, knows the
/// end. Metadata and bodies may come in any order relative to each other, also with End of Stream first. Pure; one
/// thread at a time. In order and in steady state nothing is allocated.
class CROSSDOCK_EXPORT Receiver {
 public:
  struct Options {
    std::uint32_t max_ahead = 4096;  ///< How far a sequence number may run ahead of the next one due: 1 to 2^31.
    /// Of bytes that wait for their turn, the next message's own included.
    std::uint64_t max_buffered_bytes = 256ull << 20;
    ipc::Limits limits;
  };

  Receiver();
  /// Throws InvalidArgumentError for a max_ahead out of its range.
  explicit Receiver(const Options& options);
  ~Receiver();
  Receiver(Receiver&&) noexcept;
  Receiver& operator=(Receiver&&) noexcept;

  /// An untagged message; copied. Throws ProtocolError or InvalidDataError: end the connection. Checked are its prefix,
  /// its number (taken already, given twice, at or past the end, too far ahead), and its size. Over two connections the
  /// one without the error doesn't stop at once: what lies at or past an error's number is dropped, and of two endings
  /// that are or follow an error the first error stands.
  void on_untagged(ByteSpan message);
  /// A tagged message. Matching is by the low 32 bits of the tag alone. With an owner, which keeps `body` unchanged and
  /// comes out again as Item::body_owner, nothing is copied, and the body counts for max_buffered_bytes only if it has
  /// to wait for other numbers; without one it is copied. Throws as on_untagged().
  void on_tagged(std::uint64_t tag, ByteSpan body, std::shared_ptr<const void> owner = nullptr);
  /// The connection is gone: nothing more comes. What is complete can still be taken with next().
  void on_disconnected();

  struct Item {
    enum class Kind : std::uint8_t { kMessage, kEnd, kError };
    Kind kind = Kind::kMessage;
    std::uint32_t sequence = 0;
    ipc::MessageKind message_kind = ipc::MessageKind::kSchema;  ///< kMessage only.
    ByteSpan metadata;                       ///< kMessage: the flatbuffer, 8-aligned. kError: the reason, UTF-8.
    const ipc::Message* message = nullptr;   ///< kMessage: `metadata`, parsed and verified once; else null.
    BodyType body_type = BodyType::kPacked;  ///< Meaningful if the message has a body.
    ByteSpan body;  ///< kPacked: exactly the message's body_length() bytes; kRemote: as it came.
    std::shared_ptr<const void> body_owner;  ///< As it was given; null if the body was copied.
  };
  /// The next message in sequence, with its body; null if it isn't complete yet. Valid until the next call of a
  /// non-const member. kEnd comes after everything below its number; kError comes as soon as nothing complete and in
  /// order is left, for what is missing then will never be sent. Throws ProtocolError (the first message isn't a schema
  /// or a later one is, a schema with a body, a packed body of another size than the metadata says), what
  /// ipc::Message::parse() throws, and, after on_disconnected() where no End of Stream was reached,
  /// TruncatedStreamError that tells which number is missing.
  const Item* next();

  bool finished() const noexcept;  ///< kEnd or kError was taken.
  /// Whether the metadata of the message due next has come, and only its body is missing: with two connections, which
  /// of them to read.
  bool due_has_metadata() const noexcept;
  /// Ready for another stream on the same connection. Throws StreamBusyError unless finished. Call it before the next
  /// want_data is sent. After kError, a connection that carries bodies alone may still hold some of the old stream:
  /// don't reuse it.
  void restart();

  /// For tests of the roll-over: the number due next, as if all before it had been taken. Only where nothing is
  /// waiting.
  void set_next_sequence(std::uint32_t sequence);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::dissociated
