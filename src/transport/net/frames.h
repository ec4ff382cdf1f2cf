#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "crc32c.h"

/// The frames of both directions of a connection, after the handshake. docs/reference/protocol-tcp.md is the
/// specification.
namespace crossdock::transport::net {

enum class FrameKind : std::uint8_t {
  kMessage = 1,  ///< Untagged.
  kTagged = 2,
  kBody = 3,     ///< Tagged, of any size, by value.
  kTaken = 4,    ///< How many messages this end has taken in total.
  kWindow = 5,   ///< How many messages this end allows in flight: tells the peer how often to acknowledge them.
  kGoodbye = 6,  ///< The last frame before an end closes.
  // Of a transport that carries bodies beside the stream (docs/reference/protocol-fabric.md):
  kBodyBeside = 7,  ///< Tagged: announces a body. The payload says how its bytes come.
  kRegion = 8,      ///< Announces a region, under the number in `tag`.
  kRetired = 9,     ///< Withdraws a region's number.
};

/// Whether a frame is a message, which the peer acknowledges.
constexpr bool is_message(FrameKind kind) noexcept {
  return kind <= FrameKind::kBody || kind == FrameKind::kBodyBeside;
}

/// The kinds of frames that a connection knows.
enum class FrameKinds : std::uint8_t {
  kStream = static_cast<std::uint8_t>(FrameKind::kGoodbye),  ///< Everything goes through the stream.
  kBeside = static_cast<std::uint8_t>(FrameKind::kRetired),
};

/// A frame's first 24 bytes. Its payload follows, then its trailer.
struct FrameHeader {
  FrameKind kind = FrameKind::kMessage;
  std::uint64_t tag = 0;     ///< Or the number in a kTaken or kWindow frame.
  std::uint64_t length = 0;  ///< Of the payload, in bytes.
};

inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::size_t kMaxAnnouncement = 16 << 10;  ///< Payload of a kBodyBeside or kRegion frame.
inline constexpr std::size_t kFrameAlignment = 8;

/// Whether both ends agreed on a CRC-32C of each header and of each payload.
enum class Checksums : std::uint8_t { kNone, kEach };

inline constexpr std::size_t kChecksumBytes = 4;
inline constexpr std::size_t kHeaderChecksum = 4;  ///< Its offset in a header.

/// Returns the CRC-32C of a header, computed with zeros in place of the checksum.
inline std::uint32_t header_checksum(const std::byte* header) noexcept {
  std::array<std::byte, kHeaderBytes> bytes;
  std::copy_n(header, kHeaderBytes, bytes.begin());
  store_le(&bytes[kHeaderChecksum], std::uint32_t{0});
  return crc32c(bytes);
}

inline void store(std::byte* to, const FrameHeader& header, Checksums checksums) noexcept {
  store_le(to, std::uint64_t{static_cast<std::uint8_t>(header.kind)});  // followed by seven zeros
  store_le(to + 8, header.tag);
  store_le(to + 16, header.length);
  if (checksums == Checksums::kEach) store_le(to + kHeaderChecksum, header_checksum(to));
}

/// Returns false for an unknown kind, a byte that must be zero and isn't, or a payload where none is allowed. Doesn't
/// verify the checksum.
[[nodiscard]] inline bool load(const std::byte* from, Checksums checksums, FrameKinds kinds,
                               FrameHeader* header) noexcept {
  auto kind = load_le<std::uint64_t>(from);
  if (checksums == Checksums::kEach) kind &= 0xFFFFFFFF;
  header->tag = load_le<std::uint64_t>(from + 8);
  header->length = load_le<std::uint64_t>(from + 16);
  if (kind < 1 || kind > static_cast<std::uint64_t>(kinds)) return false;
  header->kind = static_cast<FrameKind>(kind);
  switch (header->kind) {
    case FrameKind::kMessage: return header->tag == 0;
    case FrameKind::kTagged:
    case FrameKind::kBody:
    case FrameKind::kBodyBeside:
    case FrameKind::kRegion: return true;
    case FrameKind::kTaken:
    case FrameKind::kWindow:
    case FrameKind::kRetired: return header->length == 0;
    case FrameKind::kGoodbye: return header->tag == 0 && header->length == 0;
  }
  return false;
}

/// Returns how many bytes follow a payload: zeros up to a multiple of 8, of which the checksum replaces the last four.
/// Nothing follows an empty payload.
inline std::size_t trailer_size(std::uint64_t length, Checksums checksums) noexcept {
  if (length == 0) return 0;
  const std::size_t checksum = checksums == Checksums::kEach ? kChecksumBytes : 0;
  return checksum + static_cast<std::size_t>(-(length + checksum) & (kFrameAlignment - 1));
}

using Trailer = std::array<std::byte, kFrameAlignment - 1 + kChecksumBytes>;

/// Returns the CRC-32C with which a trailer must end, given that of its payload. It also covers the zeros before it.
inline std::uint32_t trailer_checksum(std::uint32_t payload, ByteSpan trailer) noexcept {
  return crc32c(payload, trailer.first(trailer.size() - kChecksumBytes));
}

/// Returns the bytes that follow a payload of `length` bytes. `payload` is its CRC-32C; it is used only if there are
/// checksums.
inline Trailer make_trailer(std::uint64_t length, Checksums checksums, std::uint32_t payload) noexcept {
  Trailer trailer{};
  const std::size_t size = trailer_size(length, checksums);
  if (checksums == Checksums::kEach && size > 0) {
    store_le(&trailer[size - kChecksumBytes], trailer_checksum(payload, ByteSpan(trailer).first(size)));
  }
  return trailer;
}

}  // namespace crossdock::transport::net
