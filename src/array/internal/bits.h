#pragma once

#include <cstddef>
#include <cstdint>

namespace crossdock::array {

/// Returns the number of bytes that hold `n` bits, n >= 0.
constexpr std::int64_t bytes_for_bits(std::int64_t n) noexcept { return n / 8 + (n % 8 != 0 ? 1 : 0); }

/// Returns bit `i`, least significant first, as in Arrow's bitmaps.
inline bool bit_at(const std::byte* bits, std::int64_t i) noexcept {
  return (std::to_integer<int>(bits[i / 8] >> (i % 8)) & 1) != 0;
}

/// Counts the set bits among the `n` bits from bit `start` on. Reads no other byte.
std::int64_t count_bits(const std::byte* bits, std::int64_t start, std::int64_t n) noexcept;

/// Copies `n` bits from bit `start` on to the start of `to`, bytes_for_bits(n) bytes; bits after the last are zero.
void copy_bits(const std::byte* from, std::int64_t start, std::int64_t n, std::byte* to) noexcept;

}  // namespace crossdock::array
