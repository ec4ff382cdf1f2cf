#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/dissociated/wire.h"
#include "crossdock/ipc/metadata.h"

namespace crossdock::dissociated {

/// The client's side of one stream ("Client Sequence"): puts messages in order, joins metadata with bodies, knows the end.
/// Metadata and bodies may come in any order relative to each other, also with End of Stream first. Pure; one thread at a time.
class CROSSDOCK_EXPORT Receiver {
 public:
  struct Options {
    std::uint32_t max_ahead = 4096;                ///< How far a sequence number may run ahead of the next one due.
    std::uint64_t max_buffered_bytes = 256ull << 20;  ///< Of bytes that wait for their turn.
    ipc::Limits limits;
  };

  Receiver();
  explicit Receiver(const Options& options);
  ~Receiver();
  Receiver(Receiver&&) noexcept;
  Receiver& operator=(Receiver&&) noexcept;

  /// An untagged message; copied. Throws ProtocolError or InvalidDataError: end the connection.
  void on_untagged(ByteSpan message);
  /// A tagged message; copied. Matching is by the low 32 bits of the tag alone.
  void on_tagged(std::uint64_t tag, ByteSpan body);
  /// The connection is gone: nothing more comes. What is complete can still be taken with next().
  void on_disconnected();

  struct Item {
    enum class Kind : std::uint8_t { kMessage, kEnd, kError };
    Kind kind;
    std::uint32_t sequence;
    ipc::MessageKind message_kind;  ///< kMessage only.
    ByteSpan metadata;              ///< The flatbuffer, 8-aligned, verified at the root only; kError: the reason, UTF-8.
    BodyType body_type;             ///< Meaningful if the message has a body.
    ByteSpan body;
  };
  /// The next message in sequence, with its body; null if it isn't complete yet. Valid until the next call of a non-const member.
  /// After on_disconnected(), where no End of Stream was reached: throws TruncatedStreamError that tells which number is missing.
  const Item* next();

  bool finished() const noexcept;  ///< kEnd or kError was taken.
  /// Ready for another stream on the same connection. Only when finished.
  void restart();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::dissociated
