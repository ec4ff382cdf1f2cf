#include "device/region_table.h"

#include <gmock/gmock.h>

#include "crossdock/core/error.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

std::shared_ptr<const Region> region_of(std::size_t size) {
  RegionWriter writer("table-test");
  writer.append(as_bytes(std::string(size, 'x')));
  return writer.freeze();
}

TEST(RegionAddress, SplitsIntoNumberAndOffset) {
  constexpr std::uint64_t kOffset = (std::uint64_t{1} << 48) - 1;
  constexpr std::uint64_t address = make_address(65535, kOffset);
  static_assert(address_region(address) == 65535);
  static_assert(address_offset(address) == kOffset);
  EXPECT_EQ(address, UINT64_MAX);
  EXPECT_EQ(make_address(0, 64), 64u);
}

TEST(RegionTable, NumbersEachRegionOnce) {
  RegionTable table;
  const auto a = region_of(10);
  const auto b = region_of(10);
  bool is_new = false;
  const auto number_a = table.number_of(a, &is_new);
  EXPECT_TRUE(is_new);
  const auto number_b = table.number_of(b, &is_new);
  EXPECT_TRUE(is_new);
  EXPECT_NE(number_a, number_b);
  EXPECT_EQ(table.number_of(a, &is_new), number_a);
  EXPECT_FALSE(is_new);
  EXPECT_EQ(table.find(number_b), b);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.bytes(), a->size() + b->size());
}

TEST(RegionTable, GoesRoundBeforeItGivesANumberOutAgain) {
  RegionTable table;
  auto a = region_of(10);
  bool is_new = false;
  const auto number = table.number_of(a, &is_new);
  EXPECT_TRUE(table.remove(number));
  EXPECT_FALSE(table.remove(number));
  EXPECT_EQ(table.find(number), nullptr);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.bytes(), 0u);
  EXPECT_EQ(a.use_count(), 1);
  // The same region again is new again, under another number: the peer was told to forget it.
  EXPECT_NE(table.number_of(a, &is_new), number);
  EXPECT_TRUE(is_new);
}

TEST(RegionTable, FindsWhatWasPut) {
  RegionTable table;
  const auto a = region_of(10);
  table.put(65535, a);
  EXPECT_EQ(table.find(65535), a);
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(65534), nullptr);
  EXPECT_THROW(table.put(65535, region_of(1)), ProtocolError);
  EXPECT_EQ(table.find(65535), a);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_TRUE(table.remove(65535));
  EXPECT_NO_THROW(table.put(65535, a));
}

TEST(RegionTable, LoosenedRegionsGoWithTheirLastOtherOwner) {
  RegionTable table;
  auto kept = region_of(10);
  auto dropped = region_of(20);
  const std::weak_ptr<const Region> watched = dropped;
  table.put(3, kept);
  table.put(9, dropped);
  table.make_weak();
  dropped.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_THROW(table.put(9, kept), ProtocolError) << "the number is in use until it is taken back";
  table.make_strong();
  EXPECT_EQ(table.find(3), kept);
  EXPECT_EQ(table.find(9), nullptr);
  const std::weak_ptr<const Region> held = kept;
  kept.reset();
  EXPECT_FALSE(held.expired());
  EXPECT_TRUE(table.remove(9));
  EXPECT_TRUE(table.remove(3));
  EXPECT_EQ(table.bytes(), 0u);
  EXPECT_TRUE(held.expired());
}

TEST(RegionTable, RefusesNothing) {
  RegionTable table;
  bool is_new = false;
  EXPECT_THROW(table.number_of(nullptr, &is_new), InvalidArgumentError);
  EXPECT_THROW(table.put(1, nullptr), InvalidArgumentError);
  EXPECT_FALSE(table.remove(7));
}

TEST(RegionTable, SaysThatItsNumbersRanOut) {
  // A process may have fewer mappings than that, and fewer descriptors: some regions take the one, some the other.
  constexpr int kMapped = 58'000;
  constexpr rlim_t kDescriptors = 8'000;
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kDescriptors) GTEST_SKIP() << "needs " << kDescriptors << " descriptors";
  const crossdock::testing::ScopedLimit raised(RLIMIT_NOFILE, kDescriptors);
  const auto first = region_of(1);
  RegionTable table;
  bool is_new = false;
  for (int i = 0; i < 65'534; ++i) {
    UniqueFd sent(i < kMapped ? ::fcntl(first->descriptor(), F_DUPFD_CLOEXEC, 0) : -1);
    const auto region =
        i < kMapped ? Region::adopt(std::move(sent), RegionKind::kFrozen, first->size(), {}, "here") : region_of(1);
    ASSERT_EQ(table.number_of(region, &is_new), i);
  }
  EXPECT_THROW(table.number_of(first, &is_new), ResourceError);
  EXPECT_EQ(table.size(), 65'534u);
  // 65,534 and 65,535 were never given; a number just taken back waits until after them.
  EXPECT_TRUE(table.remove(40'000));
  EXPECT_EQ(table.number_of(first, &is_new), 65'534);
  EXPECT_TRUE(table.remove(65'534));
  EXPECT_EQ(table.number_of(first, &is_new), 65'535);
  EXPECT_TRUE(table.remove(65'535));
  EXPECT_EQ(table.number_of(first, &is_new), 40'000);
}

}  // namespace
}  // namespace crossdock::device
