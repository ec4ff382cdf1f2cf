#include "transport/fabric/announcements.h"

#include <gtest/gtest.h>

#include <limits>

namespace crossdock::transport::fabric {
namespace {

std::vector<std::byte> numbers(std::initializer_list<std::uint64_t> values) {
  std::vector<std::byte> bytes(8 * values.size());
  std::byte* to = bytes.data();
  for (const std::uint64_t value : values) {
    store_le(to, value);
    to += 8;
  }
  return bytes;
}

TEST(FabricAnnouncements, AreWrittenAsThePageSays) {
  EXPECT_EQ(encode(BodyAnnouncement{5000, 77, {4000, 1000}}), numbers({5000, 77, 4000, 1000}));
  EXPECT_EQ(encode(RegionAnnouncement{4096, 1 << 20, 99}), numbers({4096, 1 << 20, 99}));
}

TEST(FabricAnnouncements, AreRead) {
  BodyAnnouncement body;
  ASSERT_TRUE(decode(numbers({5000, 77, 4000, 1000}), &body));
  EXPECT_EQ(body.size, 5000u);
  EXPECT_EQ(body.first_tag, 77u);
  EXPECT_EQ(body.lengths, (std::vector<std::uint64_t>{4000, 1000}));
  RegionAnnouncement region;
  ASSERT_TRUE(decode(numbers({4096, 1 << 20, 99}), &region));
  EXPECT_EQ(region.size, 4096u);
  EXPECT_EQ(region.start, 1u << 20);
  EXPECT_EQ(region.key, 99u);
}

TEST(FabricAnnouncements, OfBodiesMustAddUp) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  for (const auto& bad : {numbers({}), numbers({8}), numbers({8, 1}), numbers({8, 1, 4}), numbers({8, 1, 4, 8}),
                          numbers({8, 1, 8, 0}), numbers({8, 1, kMost, 9}), numbers({0, 1, 0}), numbers({0, 1})}) {
    BodyAnnouncement body;
    EXPECT_FALSE(decode(bad, &body)) << ::testing::PrintToString(bad);
  }
  auto odd = numbers({8, 1, 8});
  odd.pop_back();
  BodyAnnouncement body;
  EXPECT_FALSE(decode(odd, &body));
}

TEST(FabricAnnouncements, OfRegionsMustBePossible) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  for (const auto& bad : {numbers({}), numbers({1, 2}), numbers({1, 2, 3, 4}), numbers({0, 1, 1}),
                          numbers({(std::uint64_t{1} << 48) + 1, 0, 1}), numbers({2, kMost, 1})}) {
    RegionAnnouncement region;
    EXPECT_FALSE(decode(bad, &region)) << ::testing::PrintToString(bad);
  }
}

}  // namespace
}  // namespace crossdock::transport::fabric
