#pragma once

#include <cstddef>
#include <cstdint>

#include "crossdock/core/bytes.h"

/// What both directions of a connection are made of after the handshake. docs/protocol-tcp.md is the specification.
namespace crossdock::transport::tcp {

enum class FrameKind : std::uint8_t {
  kMessage = 1,  ///< Untagged.
  kTagged = 2,
  kBody = 3,     ///< Tagged, of any size, by value.
  kTaken = 4,    ///< How many messages this end has taken, ever.
  kWindow = 5,   ///< How many messages this end lets be on their way: how often it wants to hear of those taken.
  kGoodbye = 6,  ///< The last frame of an end that closes.
};

/// A frame's first 24 bytes. Its payload follows, and zeros up to a multiple of 8.
struct FrameHeader {
  FrameKind kind = FrameKind::kMessage;
  std::uint64_t tag = 0;     ///< Or the number that a kTaken or kWindow is about.
  std::uint64_t length = 0;  ///< Of the payload, bytes.
};

inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::size_t kFrameAlignment = 8;

inline void store(std::byte* to, const FrameHeader& header) noexcept {
  store_le(to, std::uint64_t{static_cast<std::uint8_t>(header.kind)});  // and seven zeros
  store_le(to + 8, header.tag);
  store_le(to + 16, header.length);
}

/// False: an unknown kind, a byte that must be zero and isn't, or a payload where there is none.
[[nodiscard]] inline bool load(const std::byte* from, FrameHeader* header) noexcept {
  const auto kind = load_le<std::uint64_t>(from);
  header->tag = load_le<std::uint64_t>(from + 8);
  header->length = load_le<std::uint64_t>(from + 16);
  if (kind < 1 || kind > static_cast<std::uint64_t>(FrameKind::kGoodbye)) return false;
  header->kind = static_cast<FrameKind>(kind);
  switch (header->kind) {
    case FrameKind::kMessage: return header->tag == 0;
    case FrameKind::kTagged:
    case FrameKind::kBody: return true;
    case FrameKind::kTaken:
    case FrameKind::kWindow: return header->length == 0;
    case FrameKind::kGoodbye: return header->tag == 0 && header->length == 0;
  }
  return false;
}

/// How many zeros follow a payload.
inline std::size_t padding(std::uint64_t length) noexcept {
  return static_cast<std::size_t>(-length & (kFrameAlignment - 1));
}

}  // namespace crossdock::transport::tcp
