#include "transport/net/announced_regions.h"

#include <gmock/gmock.h>

#include "crossdock/core/error.h"

namespace crossdock::transport::net {
namespace {

using ::testing::HasSubstr;

std::string refusal(AnnouncedRegions* regions, std::uint16_t number, std::uint64_t base, std::uint64_t size) {
  try {
    regions->add(number, base, size);
  } catch (const ProtocolError& error) {
    return error.what();
  }
  return "none";
}

TEST(AnnouncedRegions, FindBytesInOneRegionOnly) {
  AnnouncedRegions regions("the server", 8);
  regions.add(1, 1000, 100);
  regions.add(2, 1100, 100);  // adjacent
  regions.add(3, 900, 100);
  EXPECT_EQ(regions.find(1000, 100)->base, 1000u);
  EXPECT_EQ(regions.find(1099, 1)->base, 1000u);
  EXPECT_EQ(regions.find(1100, 100)->base, 1100u);
  EXPECT_EQ(regions.find(900, 100)->base, 900u);
  EXPECT_EQ(regions.find(1099, 2), nullptr) << "across two, though the bytes follow each other";
  EXPECT_EQ(regions.find(999, 2), nullptr);
  EXPECT_EQ(regions.find(900, 300), nullptr);
  EXPECT_EQ(regions.find(899, 1), nullptr);
  EXPECT_EQ(regions.find(1200, 1), nullptr);
  EXPECT_EQ(regions.find(1150, UINT64_MAX), nullptr);
  EXPECT_EQ(regions.find(UINT64_MAX, 1), nullptr);
}

TEST(AnnouncedRegions, AtGivesTheRegionBefore) {
  AnnouncedRegions regions("the server", 8);
  EXPECT_THROW(regions.at(1000), ProtocolError);
  regions.add(1, 1000, 100);
  EXPECT_THROW(regions.at(999), ProtocolError);
  EXPECT_EQ(regions.at(1000)->base, 1000u);
  EXPECT_EQ(regions.at(1100)->base, 1000u) << "behind it: whether it contains the bytes is asked of the region";
  EXPECT_FALSE(regions.at(1100)->contains(1100, 1));
  EXPECT_EQ(regions.at(UINT64_MAX)->base, 1000u);
}

TEST(AnnouncedRegions, RefuseWhatCantBe) {
  AnnouncedRegions regions("the server", 8);
  regions.add(1, 1000, 100);
  EXPECT_THAT(refusal(&regions, 1, 5000, 8), HasSubstr("this number is in use"));
  EXPECT_THAT(refusal(&regions, 2, 5000, 0), HasSubstr("it has no bytes"));
  EXPECT_THAT(refusal(&regions, 2, 1, UINT64_MAX), ::testing::AnyOf(HasSubstr("overlaps"), HasSubstr("behind")));
  EXPECT_THAT(refusal(&regions, 2, UINT64_MAX, 2), HasSubstr("it ends behind the last address"));
  EXPECT_THAT(refusal(&regions, 2, 2, UINT64_MAX), HasSubstr("it ends behind the last address"));
  for (const auto& [base, size] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {1000, 100}, {1000, 1}, {1099, 1}, {999, 2}, {900, 1000}, {0, UINT64_MAX}, {1050, 10}, {901, 100}}) {
    EXPECT_THAT(refusal(&regions, 2, base, size), HasSubstr("it overlaps another")) << base << " " << size;
  }
  EXPECT_EQ(refusal(&regions, 2, 1100, 1), "none") << "what was refused left nothing behind";
  EXPECT_EQ(refusal(&regions, 3, 999, 1), "none");
  EXPECT_EQ(refusal(&regions, 4, UINT64_MAX, 1), "none") << "the last address";
  EXPECT_EQ(regions.find(UINT64_MAX, 1)->base, UINT64_MAX);
  EXPECT_EQ(refusal(&regions, 5, 0, 999), "none") << "the first address";
  EXPECT_THAT(refusal(&regions, 6, UINT64_MAX, 1), HasSubstr("it overlaps another"));
}

TEST(AnnouncedRegions, AreLimitedInNumber) {
  AnnouncedRegions regions("the server", 2);
  regions.add(1, 1000, 100);
  regions.add(2, 2000, 100);
  EXPECT_THAT(refusal(&regions, 3, 3000, 100), HasSubstr("more than the 2 regions that are allowed here"));
  regions.remove(1);
  EXPECT_EQ(refusal(&regions, 3, 3000, 100), "none");
}

TEST(AnnouncedRegions, AreForgottenWhenTheyAreRetiredButLiveWithTheirOwners) {
  AnnouncedRegions regions("the server", 8);
  EXPECT_THROW(regions.remove(1), ProtocolError);
  regions.add(1, 1000, 100);
  const std::shared_ptr<const PeerRegion> held = regions.at(1000);
  regions.remove(1);
  EXPECT_EQ(regions.find(1000, 1), nullptr);
  EXPECT_THROW(regions.at(1000), ProtocolError);
  EXPECT_THROW(regions.remove(1), ProtocolError);
  EXPECT_TRUE(held->contains(1000, 100));
  regions.add(1, 1050, 100);
  EXPECT_EQ(regions.find(1050, 100)->base, 1050u);
}

}  // namespace
}  // namespace crossdock::transport::net
