#include "core/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

namespace crossdock {
namespace {

TEST(Bytes, IntegersAreLittleEndianAtAnyAlignment) {
  std::array<std::byte, 9> bytes{};
  store_le<std::uint32_t>(bytes.data() + 1, 0x01020304);
  EXPECT_EQ(bytes[1], std::byte{4});
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 1), 0x01020304u);
  store_le<std::int64_t>(bytes.data() + 1, -2);
  EXPECT_EQ(load_le<std::int64_t>(bytes.data() + 1), -2);
  EXPECT_EQ(bytes[0], std::byte{0});
}

TEST(Bytes, TextIsViewedNotCopied) {
  const std::string text = "abc";
  const ByteSpan bytes = as_bytes(text);
  EXPECT_EQ(static_cast<const void*>(bytes.data()), text.data());
  EXPECT_EQ(as_text(bytes), "abc");
  EXPECT_TRUE(as_bytes("").empty());
}

TEST(Bytes, AlignsUp) {
  static_assert(align_up(0, 64) == 0);
  static_assert(align_up(1, 64) == 64);
  static_assert(align_up(64, 64) == 64);
  static_assert(align_up(65, 64) == 128);
  EXPECT_EQ(align_up((std::uint64_t{1} << 48) - 1, 4096), std::uint64_t{1} << 48);
}

TEST(Bytes, SumsAndProductsThatOverflowAreRefused) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t result = 0;
  EXPECT_TRUE(checked_add<std::uint64_t>(kMost - 1, 1, &result));
  EXPECT_EQ(result, kMost);
  EXPECT_FALSE(checked_add<std::uint64_t>(kMost, 1, &result));
  EXPECT_TRUE(checked_multiply<std::uint64_t>(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1, &result));
  EXPECT_EQ(result, kMost - ((std::uint64_t{1} << 32) - 1));
  EXPECT_FALSE(checked_multiply<std::uint64_t>(std::uint64_t{1} << 32, std::uint64_t{1} << 32, &result));
  std::int64_t negative = 0;
  EXPECT_FALSE(checked_add<std::int64_t>(std::numeric_limits<std::int64_t>::min(), -1, &negative));
}

}  // namespace
}  // namespace crossdock
