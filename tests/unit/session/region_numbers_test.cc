#include "session/region_numbers.h"

#include <gmock/gmock.h>

#include "crossdock/core/error.h"
#include "unit/device/support.h"

namespace crossdock::session {
namespace {

std::shared_ptr<const device::Region> region_of(std::size_t size) {
  device::RegionWriter writer("numbers-test");
  writer.append(as_bytes(std::string(size, 'x')));
  return writer.freeze();
}

TEST(RegionNumbers, NumbersEachRegionOnce) {
  RegionNumbers numbers;
  const auto a = region_of(10);
  const auto b = region_of(10);
  bool is_new = false;
  const auto number_a = numbers.of(a, &is_new);
  EXPECT_TRUE(is_new);
  const auto number_b = numbers.of(b, &is_new);
  EXPECT_TRUE(is_new);
  EXPECT_NE(number_a, number_b);
  EXPECT_EQ(numbers.of(a, &is_new), number_a);
  EXPECT_FALSE(is_new);
  EXPECT_EQ(numbers.size(), 2u);
  EXPECT_THROW(numbers.of(nullptr, &is_new), InvalidArgumentError);
}

TEST(RegionNumbers, GoesRoundBeforeItGivesANumberOutAgain) {
  RegionNumbers numbers;
  const auto a = region_of(10);
  bool is_new = false;
  const auto number = numbers.of(a, &is_new);
  numbers.remove(number);
  EXPECT_EQ(numbers.size(), 0u);
  EXPECT_EQ(a.use_count(), 1);
  // The same region again is new again, under another number: the peer was told to forget it.
  EXPECT_NE(numbers.of(a, &is_new), number);
  EXPECT_TRUE(is_new);
}

TEST(RegionNumbers, SaysThatItsNumbersRanOut) {
  // A process may have fewer mappings than that, and fewer descriptors: some regions take the one, some the other.
  constexpr int kMapped = 58'000;
  constexpr rlim_t kDescriptors = 8'000;
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kDescriptors) GTEST_SKIP() << "needs " << kDescriptors << " descriptors";
  const crossdock::testing::ScopedLimit raised(RLIMIT_NOFILE, kDescriptors);
  const auto first = region_of(1);
  RegionNumbers numbers;
  bool is_new = false;
  for (int i = 0; i < 65'534; ++i) {
    UniqueFd sent(i < kMapped ? ::fcntl(first->descriptor(), F_DUPFD_CLOEXEC, 0) : -1);
    const auto region =
        i < kMapped ? device::Region::adopt(std::move(sent), device::RegionKind::kFrozen, first->size(), {}, "here")
                    : region_of(1);
    ASSERT_EQ(numbers.of(region, &is_new), i);
  }
  EXPECT_THROW(numbers.of(first, &is_new), ResourceError);
  EXPECT_EQ(numbers.size(), 65'534u);
  // 65,534 and 65,535 were never given; a number just taken back waits until after them.
  numbers.remove(40'000);
  EXPECT_EQ(numbers.of(first, &is_new), 65'534);
  numbers.remove(65'534);
  EXPECT_EQ(numbers.of(first, &is_new), 65'535);
  numbers.remove(65'535);
  EXPECT_EQ(numbers.of(first, &is_new), 40'000);
}

}  // namespace
}  // namespace crossdock::session
