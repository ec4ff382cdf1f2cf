#include "array/internal/element_checks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace crossdock::array {
namespace {

/// The numbers' bytes, one byte away from any alignment.
template <typename T>
class Unaligned {
 public:
  Unaligned(std::initializer_list<T> numbers) : Unaligned(std::vector<T>(numbers)) {}
  explicit Unaligned(const std::vector<T>& numbers) : bytes_(numbers.size() * sizeof(T) + 1) {
    if (!numbers.empty()) std::memcpy(bytes_.data() + 1, numbers.data(), numbers.size() * sizeof(T));
  }
  const std::byte* data() const { return bytes_.data() + 1; }
  std::int64_t n() const { return static_cast<std::int64_t>((bytes_.size() - 1) / sizeof(T)); }

 private:
  std::vector<std::byte> bytes_;
};

template <typename T>
bool ordered(const std::vector<T>& numbers) {
  const Unaligned<T> made(numbers);
  return sizeof(T) == 4 ? are_ordered<std::int32_t>(made.data(), made.n())
                        : are_ordered<std::int64_t>(made.data(), made.n());
}

template <typename T>
void expect_order_is_told() {
  constexpr T kMost = std::numeric_limits<T>::max();
  constexpr T kLeast = std::numeric_limits<T>::min();
  EXPECT_TRUE(ordered<T>({}));
  EXPECT_TRUE(ordered<T>({0, 0, 5, 5, kMost, kMost}));
  EXPECT_TRUE(ordered<T>({kMost}));
  EXPECT_FALSE(ordered<T>({-1}));
  EXPECT_FALSE(ordered<T>({0, -1, 0}));
  EXPECT_FALSE(ordered<T>({kMost, kLeast, 3})) << "a difference that wraps";
  EXPECT_FALSE(ordered<T>({kLeast, kMost}));
  std::vector<T> numbers(100);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(i + 1);
  EXPECT_TRUE(ordered(numbers));
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    std::vector<T> bad = numbers;
    bad[i] = static_cast<T>(bad[i - 1] - 1);
    EXPECT_FALSE(ordered(bad)) << i;
  }
}

TEST(ElementChecks, Order) {
  expect_order_is_told<std::int32_t>();
  expect_order_is_told<std::int64_t>();
}

TEST(ElementChecks, Multiples) {
  const auto multiples = [](const std::vector<std::int64_t>& numbers, std::int64_t of) {
    const Unaligned<std::int64_t> made(numbers);
    return are_multiples64(made.data(), made.n(), of);
  };
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_TRUE(multiples({}, 7));
  EXPECT_TRUE(multiples({0, 7, -7, 70}, 7));
  EXPECT_FALSE(multiples({0, 7, -8}, 7));
  EXPECT_FALSE(multiples({1, 7}, 7));
  EXPECT_TRUE(multiples({kLeast, 8}, 8));
  EXPECT_FALSE(multiples({kLeast}, 7));
}

template <typename T>
void expect_limits_are_told(TypeId type) {
  const auto below = [type](const std::vector<T>& numbers, std::int64_t limit) {
    const Unaligned<T> made(numbers);
    return are_below(type, made.data(), made.n(), limit);
  };
  constexpr T kMost = std::numeric_limits<T>::max();
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(below({}, 0));
  EXPECT_FALSE(below({0}, 0));
  EXPECT_TRUE(below({0, 6, 3}, 7));
  EXPECT_FALSE(below({0, 7, 3}, 7));
  EXPECT_FALSE(below({0, kMost, 3}, 7));
  EXPECT_FALSE(below({0, 3, static_cast<T>(-1)}, 7));
  EXPECT_FALSE(below({std::numeric_limits<T>::min(), static_cast<T>(-2)}, 7));
  if constexpr (sizeof(T) < 8) {
    EXPECT_TRUE(below({kMost}, kNoLimit));
    EXPECT_TRUE(below({kMost}, std::int64_t{kMost} + 1));
    EXPECT_FALSE(below({kMost}, std::int64_t{kMost}));
  }
  for (std::size_t i = 0; i < 70; ++i) {
    std::vector<T> numbers(70, T{5});
    EXPECT_TRUE(below(numbers, 6));
    numbers[i] = 6;
    EXPECT_FALSE(below(numbers, 6)) << i;
  }
}

TEST(ElementChecks, LimitsOfEveryIndexType) {
  expect_limits_are_told<std::int8_t>(TypeId::kInt8);
  expect_limits_are_told<std::int16_t>(TypeId::kInt16);
  expect_limits_are_told<std::int32_t>(TypeId::kInt32);
  expect_limits_are_told<std::int64_t>(TypeId::kInt64);
  expect_limits_are_told<std::uint8_t>(TypeId::kUInt8);
  expect_limits_are_told<std::uint16_t>(TypeId::kUInt16);
  expect_limits_are_told<std::uint32_t>(TypeId::kUInt32);
  expect_limits_are_told<std::uint64_t>(TypeId::kUInt64);
}

template <typename T>
void expect_run_ends_are_told(TypeId type) {
  const auto good = [type](const std::vector<T>& ends) {
    const Unaligned<T> made(ends);
    return are_run_ends(type, made.data(), made.n());
  };
  constexpr T kMost = std::numeric_limits<T>::max();
  EXPECT_TRUE(good({}));
  EXPECT_TRUE(good({1}));
  EXPECT_TRUE(good({1, 2, 9, kMost}));
  EXPECT_FALSE(good({0}));
  EXPECT_FALSE(good({0, 1}));
  EXPECT_FALSE(good({-1, 1}));
  EXPECT_FALSE(good({3, 3}));
  EXPECT_FALSE(good({3, 2, 5}));
  EXPECT_FALSE(good({kMost, std::numeric_limits<T>::min(), kMost}));
}

TEST(ElementChecks, RunEnds) {
  expect_run_ends_are_told<std::int16_t>(TypeId::kInt16);
  expect_run_ends_are_told<std::int32_t>(TypeId::kInt32);
  expect_run_ends_are_told<std::int64_t>(TypeId::kInt64);
}

template <typename T>
void expect_lists_are_told() {
  const auto good = [](T offset, T size, std::int64_t length) {
    const Unaligned<T> offsets{0, offset, 0};
    const Unaligned<T> sizes{0, size, 0};
    return sizeof(T) == 4 ? are_lists<std::int32_t>(offsets.data(), sizes.data(), 3, length)
                          : are_lists<std::int64_t>(offsets.data(), sizes.data(), 3, length);
  };
  constexpr T kMost = std::numeric_limits<T>::max();
  constexpr T kLeast = std::numeric_limits<T>::min();
  EXPECT_TRUE(good(0, 0, 0));
  EXPECT_TRUE(good(3, 4, 7));
  EXPECT_TRUE(good(7, 0, 7));
  EXPECT_FALSE(good(3, 5, 7));
  EXPECT_FALSE(good(8, 0, 7));
  EXPECT_FALSE(good(-1, 1, 7));
  EXPECT_FALSE(good(1, -1, 7));
  EXPECT_FALSE(good(kMost, kMost, 7)) << "a sum that wraps";
  EXPECT_FALSE(good(kMost, 1, 7));
  EXPECT_FALSE(good(1, kMost, 7));
  EXPECT_FALSE(good(kLeast, kLeast, 7));
  EXPECT_FALSE(good(kLeast, kMost, std::numeric_limits<std::int64_t>::max()));
}

TEST(ElementChecks, ListViews) {
  expect_lists_are_told<std::int32_t>();
  expect_lists_are_told<std::int64_t>();
}

}  // namespace
}  // namespace crossdock::array
