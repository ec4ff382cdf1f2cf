#include "body_pieces.h"

#include <algorithm>

namespace crossdock::transport::ucx {
std::size_t size_of(std::span<const ByteSpan> parts) noexcept {
  std::size_t size = 0;
  for (const ByteSpan part : parts) size += part.size();
  return size;
}

std::uint64_t small_bytes_of(std::span<const BodyPiece> pieces) noexcept {
  std::uint64_t bytes = 0;
  for (const BodyPiece& piece : pieces) bytes += size_of(piece.prefix) + (piece.size < kLargePiece ? piece.size : 0);
  return bytes;
}

std::vector<BodyPiece> pieces_of(std::span<const ByteSpan> parts) {
  const std::size_t large = std::max(kLargePiece, size_of(parts) / kMaxLarge);
  std::vector<BodyPiece> pieces;
  std::size_t begin = 0;  // of the parts that no piece has yet
  std::size_t small = 0;  // their bytes
  const auto cut = [&](std::size_t end) {
    if (small > 0) pieces.push_back({.prefix = {}, .parts = parts.subspan(begin, end - begin), .size = small});
    begin = end;
    small = 0;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t size = parts[i].size();
    if (size < large) {
      if (small + size > std::max(kMaxPacked, large)) cut(i);
      small += size;
      continue;
    }
    if (small > kMaxPrefix) cut(i);
    pieces.push_back({.prefix = parts.subspan(begin, i - begin), .parts = parts.subspan(i, 1), .size = size});
    begin = i + 1;
    small = 0;
  }
  cut(parts.size());
  return pieces;
}

}  // namespace crossdock::transport::ucx
