#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"

/// The bytes of messages between peers: docs/reference/protocol-peers.md. Pure: no input, no output, no state. Every
/// decode function takes bytes of a peer, in memory that the peer can't change any more, and throws ProtocolError,
/// whose text says what is wrong, for bytes that break the rules.
namespace crossdock::peers::wire {

inline constexpr std::uint32_t kVersion = 1;
/// The tag of bodies that are messages. Control messages have none.
inline constexpr std::uint64_t kMessageTag = 1;
/// Frames by value begin at multiples of this in a body.
inline constexpr std::uint64_t kAlignment = 64;
inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kEntryBytes = 24;
/// What a frame counts for in the window of bytes, beside the body: about what a receiver needs for it.
inline constexpr std::uint64_t kFrameCost = 128;
/// Returns what a message counts for in the window of bytes.
constexpr std::uint64_t cost_of(std::uint64_t body_bytes, std::size_t frames) noexcept {
  return body_bytes + kFrameCost * frames;
}
/// The most regions in one RETURN.
inline constexpr std::size_t kMaxReturns = 4096;

enum class Control : std::uint32_t { kOpen = 1, kReturn = 2, kEnd = 3 };

/// The first control message of each end.
struct Open {
  std::uint32_t version = kVersion;
  std::uint64_t features = 0;         ///< None is defined yet; those of a later version are ignored.
  std::uint32_t window_messages = 0;  ///< At least 1.
  std::uint32_t max_frames = 0;       ///< Of a message.
  std::uint64_t window_bytes = 0;     ///< Of messages, see cost_of().
  std::uint64_t max_body = 0;         ///< Of one message.
  std::uint32_t max_regions = 0;      ///< 0: it takes no frames by address.
  std::string software = {};          ///< Its version of Crossdock; printable.
};

/// Frames of one region that the receiver has released.
struct Released {
  std::uint32_t region = 0;  ///< Its number.
  std::uint32_t frames = 0;  ///< At least 1.
  bool operator==(const Released&) const = default;
};

/// What a receiver tells: how far its user has taken messages, and what of the sender's memory is free again.
struct Return {
  std::uint64_t taken_messages = 0;  ///< Ever.
  std::uint64_t taken_bytes = 0;     ///< Of theirs, ever: see cost_of().
  std::vector<Released> released = {};
};

/// The last control message of an end.
enum class End : std::uint32_t { kClosed = 0, kAborted = 1 };

/// A frame in a message's table.
struct FrameEntry {
  std::uint64_t size = 0;
  std::uint64_t address = 0;  ///< 0: by value.
  std::uint32_t region = 0;   ///< By address: the region's number.
  bool operator==(const FrameEntry&) const = default;
};

/// The parts of a message's body. The spans point into it.
struct Body {
  std::vector<FrameEntry> frames;
  std::vector<ByteSpan> values;  ///< Of the frame of the same index; empty: by address, or of 0 bytes.
  ByteSpan meta;
};

std::vector<std::byte> encode(const Open& open);
std::vector<std::byte> encode(const Return& message);
std::vector<std::byte> encode(End end);
/// Returns what a body begins with: the header, the table, the meta bytes, and zeros up to the first frame by value, if
/// there is one.
std::vector<std::byte> encode_start(std::span<const FrameEntry> frames, ByteSpan meta);

/// Returns the kind of a control message.
Control control_of(ByteSpan message);
Open decode_open(ByteSpan message);
Return decode_return(ByteSpan message);
End decode_end(ByteSpan message);
/// `max_frames` bounds what is allocated.
Body decode_body(ByteSpan body, std::uint32_t max_frames);

}  // namespace crossdock::peers::wire
