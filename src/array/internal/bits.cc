#include "array/internal/bits.h"

#include <bit>

#include "core/bytes.h"

namespace crossdock::array {
namespace {

constexpr std::int64_t kWord = sizeof(std::uint64_t);

}  // namespace

std::int64_t count_bits(const std::byte* bits, std::int64_t start, std::int64_t n) noexcept {
  std::int64_t count = 0;
  for (; n > 0 && start % 8 != 0; ++start, --n) count += bit_at(bits, start) ? 1 : 0;
  const std::byte* at = bits + start / 8;
  for (; n >= 8 * kWord; n -= 8 * kWord, start += 8 * kWord, at += kWord) {
    count += std::popcount(load_le<std::uint64_t>(at));
  }
  for (; n > 0; ++start, --n) count += bit_at(bits, start) ? 1 : 0;
  return count;
}

void copy_bits(const std::byte* from, std::int64_t start, std::int64_t n, std::byte* to) noexcept {
  if (n <= 0) return;
  const std::byte* at = from + start / 8;
  const auto shift = static_cast<int>(start % 8);
  const std::int64_t source = bytes_for_bits(shift + n);  // bytes that may be read
  const std::int64_t target = bytes_for_bits(n);
  std::int64_t i = 0;
  if (shift == 0) {
    std::memcpy(to, at, static_cast<std::size_t>(target));
  } else {
    // A word of the target comes from nine bytes of the source.
    for (; i + kWord < source && i + kWord <= target; i += kWord) {
      const auto low = load_le<std::uint64_t>(at + i);
      const auto high = std::to_integer<std::uint64_t>(at[i + kWord]);
      store_le<std::uint64_t>(to + i, (low >> shift) | (high << (64 - shift)));
    }
    for (; i < target; ++i) {
      const std::byte high = i + 1 < source ? at[i + 1] << (8 - shift) : std::byte{0};
      to[i] = (at[i] >> shift) | high;
    }
  }
  if (n % 8 != 0) to[target - 1] &= static_cast<std::byte>((1 << (n % 8)) - 1);
}

}  // namespace crossdock::array
