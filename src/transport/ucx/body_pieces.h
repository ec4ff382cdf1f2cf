#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"

/// Bodies of parts that lie apart. UCX sends a message of several parts in small copies, and one of a single part
/// without a copy. So a large part is a message of its own, between two ends of Crossdock's, and others are packed
/// before they are sent. docs/reference/protocol-ucx.md is the specification.
namespace crossdock::transport::ucx {

/// The id of the active messages with pieces of bodies.
inline constexpr unsigned kPieceId = 3;
/// A part at least this large is a piece of its own, and so large a piece is sent without a copy, by UCX's rendezvous.
inline constexpr std::size_t kLargePiece = 64 << 10;
/// The most that is packed into one piece.
inline constexpr std::size_t kMaxPacked = 1 << 20;
/// Bytes before a piece's own that its header may have.
inline constexpr std::size_t kMaxPrefix = 1024;

/// Parts of a body that are pieces of their own, at most.
inline constexpr std::size_t kMaxLarge = 1024;
/// Pieces of a body that this end sends, at most.
inline constexpr std::size_t kMaxPieces = 2 * kMaxLarge + 1;
/// Pieces, of all bodies, that a peer may send by rendezvous before this end has fetched them. Each takes memory here.
inline constexpr std::size_t kMaxUnfetched = 8192;

/// The fixed part of a piece's header. The prefix follows.
struct PieceHead {
  static constexpr std::size_t kBytes = 16;
  std::uint64_t tag = 0;
  std::uint64_t total = 0;  ///< Bytes of the whole body.
};

/// The longest header of a piece.
inline constexpr std::size_t kMaxPieceHeader = PieceHead::kBytes + kMaxPrefix;

inline void encode(const PieceHead& head, std::byte* to) noexcept {
  store_le(to, head.tag);
  store_le(to + 8, head.total);
}

/// `header` has at least PieceHead::kBytes.
inline PieceHead decode_piece_head(ByteSpan header) noexcept {
  return {.tag = load_le<std::uint64_t>(header.data()), .total = load_le<std::uint64_t>(header.data() + 8)};
}

/// A piece: parts that follow each other in the body.
struct BodyPiece {
  std::span<const ByteSpan> prefix;  ///< At most kMaxPrefix bytes: they are copied into the header.
  std::span<const ByteSpan> parts;   ///< One that is large, or some that aren't.
  std::size_t size = 0;              ///< Of `parts`, in bytes.

  /// Whether it is worth a copy.
  bool packable() const noexcept { return parts.size() > 1 && size >= kLargePiece && size <= kMaxPacked; }
};

std::size_t size_of(std::span<const ByteSpan> parts) noexcept;

/// Returns the bytes of pieces that are sent without rendezvous.
std::uint64_t small_bytes_of(std::span<const BodyPiece> pieces) noexcept;

/// Returns the pieces of a body, in order: at most kMaxPieces. A body of very many large parts has a higher limit for
/// them.
std::vector<BodyPiece> pieces_of(std::span<const ByteSpan> parts);

}  // namespace crossdock::transport::ucx
