#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "device/region.h"

namespace crossdock::device {
namespace {

std::shared_ptr<const Region> frozen() {
  RegionWriter writer("attachment-test");
  writer.append(as_bytes("content"));
  return writer.freeze();
}

TEST(RegionAttachment, IsMadeOnceForEachKey) {
  const auto region = frozen();
  const int one = 0;
  const int other = 0;
  int made = 0;
  const auto make = [&] { return std::make_shared<int>(++made); };
  const auto first = region->attachment(&one, make);
  EXPECT_EQ(region->attachment(&one, make), first);
  EXPECT_EQ(made, 1);
  EXPECT_NE(region->attachment(&other, make), first);
  EXPECT_EQ(made, 2);
}

TEST(RegionAttachment, LivesAsLongAsTheRegionAndMayUseItsMemory) {
  std::shared_ptr<const Region> region = Region::make_recycled(4096, "attachment-test");
  const std::byte* const memory = region->data();
  std::shared_ptr<const Region> owner = region;
  int key = 0;
  std::byte last{1};
  std::weak_ptr<void> watched;
  {
    std::shared_ptr<void> attachment(&key, [&, memory](void*) { last = memory[4095]; });
    watched = attachment;
    owner->attachment(&key, [&] { return attachment; });
  }
  EXPECT_FALSE(watched.expired());
  owner.reset();
  EXPECT_FALSE(watched.expired());
  region.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(last, std::byte{0}) << "the memory was still mapped";
}

TEST(RegionAttachment, AnErrorAttachesNothing) {
  const auto region = frozen();
  const int key = 0;
  EXPECT_THROW(region->attachment(&key, []() -> std::shared_ptr<void> { throw std::runtime_error("no"); }),
               std::runtime_error);
  const auto made = std::make_shared<int>(7);
  EXPECT_EQ(region->attachment(&key, [&] { return made; }), made);
}

TEST(RegionAttachment, MakingOneMayAskForAnother) {
  const auto region = frozen();
  const int outer = 0;
  const int inner = 0;
  const auto made = std::make_shared<int>(7);
  EXPECT_EQ(region->attachment(&outer, [&] { return region->attachment(&inner, [&] { return made; }); }), made);
  EXPECT_EQ(region->attachment(&inner, [] { return nullptr; }), made);
}

TEST(RegionAttachment, ThreadsThatRaceGetTheSame) {
  constexpr int kThreads = 4;
  const auto region = frozen();
  const int key = 0;
  std::atomic<int> alive{0};
  std::latch all_make(kThreads);  // each thread finds none
  std::vector<std::shared_ptr<void>> got(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      got[static_cast<std::size_t>(i)] = region->attachment(&key, [&] {
        all_make.arrive_and_wait();
        ++alive;
        return std::shared_ptr<void>(&alive, [&](void*) { --alive; });
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : got) EXPECT_EQ(each, got[0]);
  EXPECT_EQ(alive, 1) << "the others were destroyed";
}

}  // namespace
}  // namespace crossdock::device
