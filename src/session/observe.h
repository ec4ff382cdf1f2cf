#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "crossdock/array/schema.h"
#include "crossdock/session/client.h"
#include "dissociated/wire.h"
#include "ipc/describe.h"
#include "transport/transport.h"

/// The arguments of the observers of a stream that is received: GetOptions::on_message and on_batch.
namespace crossdock::session {

enum class Direction : std::uint8_t { kSent, kReceived };  ///< Seen from the client.

/// One message as it was sent or received, before it is decoded: it may be malformed. All members are valid during the
/// call only.
struct WireEvent {
  Direction direction;
  bool tagged;
  std::uint64_t tag;  ///< 0 for untagged messages.
  ByteSpan bytes;     ///< Without the transport's own framing.
  const transport::Agreement& agreement;
};

/// A record batch or dictionary that was accepted: its memory is available and its structure was checked. Valid during
/// the call only.
struct BatchArrival {
  std::uint32_t sequence;
  ByteSpan metadata;            ///< Input for ipc::describe_batch(), together with:
  const array::Schema& schema;  ///< Of the stream.
  dissociated::BodyType body_type;
  ByteSpan body;                                      ///< As received.
  std::span<const dissociated::RemoteBuffer> remote;  ///< For BodyType::kRemote: the table in `body`, decoded.
};

/// The meaning of a message.
enum class WireKind : std::uint8_t {
  kWantData,
  kFreeData,
  kMetadata,
  kBody,
  kEndOfStream,
  kError,
  kCancel,
  kBad,  ///< Violates the protocol's format: `text` says how.
};

/// One message, decoded.
struct WireMessage {
  Direction direction = Direction::kReceived;
  bool tagged = false;
  ChannelRole role = ChannelRole::kBoth;  ///< Of its connection.
  WireKind kind = WireKind::kBad;
  std::size_t size = 0;        ///< In bytes, with the prefix.
  std::uint64_t tag = 0;       ///< Tagged only.
  std::uint32_t sequence = 0;  ///< Of metadata, bodies, and the stream's end; without meaning in a cancel.
  /// kWantData: the ticket. kError: the reason. kBad: the error found. kMetadata: the reason why `message` is absent,
  /// if it is. May contain any bytes.
  std::string text;
  std::optional<ipc::MessageSummary> message;  ///< kMetadata.
  dissociated::BodyType body_type = dissociated::BodyType::kPacked;
  // For bodies of type 1 and for free_data. `buffers` holds the first kShownBuffers of them.
  std::uint64_t total = 0;
  std::size_t n_buffers = 0;
  std::vector<dissociated::RemoteBuffer> buffers;  ///< For free_data: without lengths.

  static constexpr std::size_t kShownBuffers = 4;
};

/// Decodes a message. Never throws because of its content.
WireMessage decode_wire(const WireEvent& event);
/// Returns one printable line without a line feed: "<- untagged  number 1   metadata  record batch: 3 rows, ...".
std::string to_text(const WireMessage& message);
const char* wire_kind_name(WireKind kind) noexcept;

}  // namespace crossdock::session
