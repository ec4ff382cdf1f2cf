#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crossdock/array/schema.h"
#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/dissociated/wire.h"
#include "crossdock/ipc/describe.h"
#include "crossdock/transport/transport.h"

/// Looking on while a stream is received: GetOptions::on_message and on_batch. Where nobody does, each costs a branch.
namespace crossdock::session {

enum class Direction : std::uint8_t { kSent, kReceived };  ///< As the client sees it.

/// One message as it passes, before anything is made of it: it may be malformed. All of it is valid during the call
/// only.
struct WireEvent {
  Direction direction;
  bool tagged;
  std::uint64_t tag;  ///< 0 of an untagged one.
  ByteSpan bytes;     ///< Without the transport's own framing.
  const transport::Agreement& agreement;
};

/// Called on the thread that sends or receives. Addresses are freed by whoever drops a batch, on any thread, also
/// after the stream has ended, so several calls may run at once; and with a lock of the connection held. It must not
/// use the client, its readers or their batches. What it throws is dropped.
using WireObserver = std::function<void(const WireEvent&)>;

/// A record batch or dictionary that was accepted: its memory is there, and its structure was checked. Valid during the
/// call.
struct BatchArrival {
  std::uint32_t sequence;
  ByteSpan metadata;            ///< For ipc::describe_batch, with:
  const array::Schema& schema;  ///< The stream's.
  dissociated::BodyType body_type;
  ByteSpan body;                                      ///< As it came.
  std::span<const dissociated::RemoteBuffer> remote;  ///< BodyType::kRemote: the table that `body` is.
};

/// Called on the thread that is in Reader::next(), with no lock held, in the stream's order. What it throws ends the
/// stream.
using BatchObserver = std::function<void(const BatchArrival&)>;

/// What one message means.
enum class WireKind : std::uint8_t {
  kWantData,
  kFreeData,
  kMetadata,
  kBody,
  kEndOfStream,
  kError,
  kCancel,
  kBad,  ///< Breaks the protocol's forms: `text` says how.
};

/// One message, decoded.
struct WireMessage {
  Direction direction = Direction::kReceived;
  bool tagged = false;
  ChannelRole role = ChannelRole::kBoth;  ///< What its connection is for.
  WireKind kind = WireKind::kBad;
  std::size_t size = 0;        ///< Bytes, the prefix's included.
  std::uint64_t tag = 0;       ///< Tagged only.
  std::uint32_t sequence = 0;  ///< Of metadata, bodies, and the stream's end; a cancel's means nothing.
  /// kWantData: the ticket. kError: the reason. kBad: what is wrong. kMetadata: why `message` is absent, if it is. Any
  /// bytes.
  std::string text;
  std::optional<ipc::MessageSummary> message;  ///< kMetadata.
  dissociated::BodyType body_type = dissociated::BodyType::kPacked;
  // Type 1 bodies and free_data. Of the buffers, the first kShownBuffers.
  std::uint64_t total = 0;
  std::size_t n_buffers = 0;
  std::vector<dissociated::RemoteBuffer> buffers;  ///< free_data: without lengths.

  static constexpr std::size_t kShownBuffers = 4;
};

/// Never throws for what the bytes hold.
CROSSDOCK_EXPORT WireMessage decode_wire(const WireEvent& event);
/// One line, printable, without a line feed: "<- untagged  number 1   metadata  record batch: 3 rows, ...".
CROSSDOCK_EXPORT std::string to_text(const WireMessage& message);
CROSSDOCK_EXPORT const char* wire_kind_name(WireKind kind) noexcept;

}  // namespace crossdock::session
