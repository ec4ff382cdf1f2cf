#include "utf8.h"

#include <bit>

#include "crossdock/core/bytes.h"

namespace crossdock::array {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080u;

/// How many of the bytes at the start are ASCII, or a little fewer: it goes by eight.
std::int64_t ascii_prefix(const std::byte* data, std::int64_t size) noexcept {
  constexpr std::int64_t kBlock = 64;
  std::int64_t i = 0;
  for (; size - i >= kBlock; i += kBlock) {
    std::uint64_t any = 0;
    for (std::int64_t w = 0; w < kBlock; w += 8) any |= load_le<std::uint64_t>(data + i + w);
    if ((any & kHighBits) != 0) break;
  }
  for (; size - i >= 8; i += 8) {
    const std::uint64_t high = load_le<std::uint64_t>(data + i) & kHighBits;
    if (high != 0) return i + std::countr_zero(high) / 8;
  }
  return i;
}

/// The bounds of a character's second byte, and its length: what RFC 3629's table (section 4) says of its first byte.
struct Lead {
  std::uint8_t length;
  std::uint8_t low;
  std::uint8_t high;
};

constexpr Lead lead_of(std::uint8_t byte) noexcept {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

}  // namespace

bool is_ascii(const std::byte* data, std::int64_t size) noexcept {
  // Blocks small enough to stop early, large enough for vector instructions.
  constexpr std::int64_t kBlock = 512;
  std::int64_t i = 0;
  for (; size - i >= kBlock; i += kBlock) {
    std::uint64_t any = 0;
    for (std::int64_t w = 0; w < kBlock; w += 8) any |= load_le<std::uint64_t>(data + i + w);
    if ((any & kHighBits) != 0) return false;
  }
  std::uint64_t any = 0;
  for (; size - i >= 8; i += 8) any |= load_le<std::uint64_t>(data + i);
  for (; i < size; ++i) any |= std::to_integer<std::uint64_t>(data[i]);
  return (any & kHighBits) == 0;
}

bool is_utf8(const std::byte* data, std::int64_t size) noexcept {
  std::int64_t i = 0;
  while (i < size) {
    const auto first = std::to_integer<std::uint8_t>(data[i]);
    if (first < 0x80) {
      const std::int64_t skipped = ascii_prefix(data + i, size - i);
      i += skipped > 0 ? skipped : 1;
      continue;
    }
    const Lead lead = lead_of(first);
    if (lead.length == 0 || lead.length > size - i) return false;
    const auto second = std::to_integer<std::uint8_t>(data[i + 1]);
    if (second < lead.low || second > lead.high) return false;
    for (std::uint8_t more = 2; more < lead.length; ++more) {
      if (!is_continuation(data[i + more])) return false;
    }
    i += lead.length;
  }
  return true;
}

}  // namespace crossdock::array
