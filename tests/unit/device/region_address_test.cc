#include "device/region_address.h"

#include <gtest/gtest.h>

namespace crossdock::device {
namespace {

TEST(RegionAddress, SplitsIntoNumberAndOffset) {
  constexpr std::uint64_t kOffset = (std::uint64_t{1} << 48) - 1;
  constexpr std::uint64_t address = make_address(65535, kOffset);
  static_assert(address_region(address) == 65535);
  static_assert(address_offset(address) == kOffset);
  EXPECT_EQ(address, UINT64_MAX);
  EXPECT_EQ(make_address(0, 64), 64u);
}

}  // namespace
}  // namespace crossdock::device
