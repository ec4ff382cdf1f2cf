#include "array/internal/digits.h"

#include <gtest/gtest.h>

#include <vector>

namespace crossdock::array {
namespace {

/// A number of 32 bytes, made digit by digit with long addition: slow, and by another way than DigitLimit's.
class Number {
 public:
  explicit Number(std::int32_t power) {
    bytes_[0] = 1;
    for (std::int32_t i = 0; i < power; ++i) {
      const Number once = *this;
      for (int times = 1; times < 10; ++times) add(once);
    }
  }
  void add(const Number& other) {
    int carry = 0;
    for (int i = 0; i < 32; ++i) {
      const int sum = bytes_[i] + other.bytes_[i] + carry;
      bytes_[i] = static_cast<std::uint8_t>(sum);
      carry = sum >> 8;
    }
  }
  void decrement() {
    for (int i = 0; i < 32 && bytes_[i]-- == 0; ++i) {
    }
  }
  void negate() {
    decrement();
    for (std::uint8_t& byte : bytes_) byte = static_cast<std::uint8_t>(~byte);
  }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(bytes_); }

 private:
  std::uint8_t bytes_[32] = {};
};

TEST(DigitLimit, IsExactAtEveryPrecisionOfEveryWidth) {
  for (const auto& [width, most] :
       std::vector<std::pair<std::int32_t, std::int32_t>>{{4, 9}, {8, 18}, {16, 38}, {32, 76}}) {
    for (std::int32_t precision = 1; precision <= most; ++precision) {
      const DigitLimit limit(precision);
      Number over(precision);
      Number within = over;
      within.decrement();
      EXPECT_TRUE(limit.holds(within.data(), width)) << width << " " << precision;
      EXPECT_FALSE(limit.holds(over.data(), width)) << width << " " << precision;
      within.negate();
      over.negate();
      EXPECT_TRUE(limit.holds(within.data(), width)) << width << " -" << precision;
      EXPECT_FALSE(limit.holds(over.data(), width)) << width << " -" << precision;
    }
  }
}

TEST(DigitLimit, TheSmallestNumberOfAWidthIsNoWrappedOne) {
  for (const auto& [width, most] :
       std::vector<std::pair<std::int32_t, std::int32_t>>{{4, 9}, {8, 18}, {16, 38}, {32, 76}}) {
    std::vector<std::byte> smallest(static_cast<std::size_t>(width));
    smallest.back() = std::byte{0x80};
    EXPECT_FALSE(DigitLimit(most).holds(smallest.data(), width)) << width;
    smallest.back() = std::byte{0};
    EXPECT_TRUE(DigitLimit(1).holds(smallest.data(), width)) << width;
  }
}

}  // namespace
}  // namespace crossdock::array
