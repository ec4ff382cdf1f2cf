#include "array/internal/bits.h"

#include <gtest/gtest.h>

#include <memory>

namespace crossdock::array {
namespace {

/// `n` bytes on the heap, exactly: a sanitizer sees the first byte too far.
std::unique_ptr<std::byte[]> pattern(std::int64_t n) {
  std::unique_ptr<std::byte[]> out(new std::byte[static_cast<std::size_t>(n)]);
  for (std::int64_t i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = static_cast<std::byte>(i * 167 + 13);
  return out;
}

bool bit(const std::byte* bits, std::int64_t i) { return (std::to_integer<int>(bits[i / 8] >> (i % 8)) & 1) != 0; }

TEST(Bits, CountAndCopyAgreeWithOneBitAtATime) {
  for (std::int64_t start = 0; start < 19; ++start) {
    for (std::int64_t n = 0; n < 300; ++n) {
      const auto from = pattern(bytes_for_bits(start + n));
      std::unique_ptr<std::byte[]> to(new std::byte[static_cast<std::size_t>(bytes_for_bits(n))]);
      copy_bits(from.get(), start, n, to.get());
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(bit(to.get(), i), bit(from.get(), start + i)) << start << " " << n << " " << i;
        count += bit(from.get(), start + i) ? 1 : 0;
      }
      for (std::int64_t i = n; i < bytes_for_bits(n) * 8; ++i) ASSERT_FALSE(bit(to.get(), i)) << "padding is zero";
      ASSERT_EQ(count_bits(from.get(), start, n), count) << start << " " << n;
    }
  }
}

}  // namespace
}  // namespace crossdock::array
