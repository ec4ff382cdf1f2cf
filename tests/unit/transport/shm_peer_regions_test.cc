#include "transport/shm/peer_regions.h"

#include <gtest/gtest.h>

#include "crossdock/core/error.h"

namespace crossdock::transport::shm {
namespace {

std::shared_ptr<const PeerRegion> region_of(std::uint64_t size) {
  return std::make_shared<const PeerRegion>(0, size, nullptr);
}

TEST(PeerRegions, FindsWhatWasPut) {
  PeerRegions regions;
  const auto a = region_of(10);
  regions.put(65535, a);
  EXPECT_EQ(regions.find(65535), a);
  EXPECT_EQ(regions.find(0), nullptr);
  EXPECT_EQ(regions.find(65534), nullptr);
  EXPECT_THROW(regions.put(65535, region_of(1)), ProtocolError);
  EXPECT_EQ(regions.find(65535), a);
  EXPECT_TRUE(regions.remove(65535));
  EXPECT_FALSE(regions.remove(65535));
  EXPECT_EQ(regions.find(65535), nullptr);
  EXPECT_NO_THROW(regions.put(65535, a));
}

TEST(PeerRegions, WeakRegionsGoWithTheirLastOtherOwner) {
  PeerRegions regions;
  auto kept = region_of(10);
  auto dropped = region_of(20);
  const std::weak_ptr<const PeerRegion> watched = dropped;
  regions.put(3, kept);
  regions.put(9, dropped);
  regions.make_weak();
  dropped.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_THROW(regions.put(9, kept), ProtocolError) << "the number is in use until it is taken back";
  regions.make_strong();
  EXPECT_EQ(regions.find(3), kept);
  EXPECT_EQ(regions.find(9), nullptr);
  const std::weak_ptr<const PeerRegion> held = kept;
  kept.reset();
  EXPECT_FALSE(held.expired());
  EXPECT_TRUE(regions.remove(9));
  EXPECT_TRUE(regions.remove(3));
  EXPECT_TRUE(held.expired());
}

TEST(PeerRegion, ContainsWhatIsWhollyInside) {
  const PeerRegion region(1000, 100, nullptr);
  EXPECT_TRUE(region.contains(1000, 100));
  EXPECT_TRUE(region.contains(1100, 0));
  EXPECT_FALSE(region.contains(999, 1));
  EXPECT_FALSE(region.contains(1000, 101));
  EXPECT_FALSE(region.contains(1050, 51));
  EXPECT_FALSE(region.contains(1050, UINT64_MAX));
  EXPECT_FALSE(region.contains(0, UINT64_MAX));
}

}  // namespace
}  // namespace crossdock::transport::shm
