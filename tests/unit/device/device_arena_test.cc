#include "crossdock/device/device_arena.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/device/registry.h"
#include "device/memory_handle.h"
#include "device/region.h"
#include "device/sim.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using crossdock::testing::run_in_child;
using ::testing::HasSubstr;

class DeviceArenaTest : public ::testing::Test {
 protected:
  ~DeviceArenaTest() override { EXPECT_THAT(driver_->faults(), ::testing::IsEmpty()); }

  std::shared_ptr<SimDriver> driver_ = make_sim_driver({.devices = 2, .memory = 64 << 20});
  std::shared_ptr<Context> context_ = driver_->open({DeviceType::kExtDev, 1});
};

TEST_F(DeviceArenaTest, GivesAlignedMemoryThatNeverOverlapsAndCanBeExported) {
  DeviceArena arena(context_);
  const BufferRef first = arena.allocate(100);
  const BufferRef second = arena.allocate(1);
  const BufferRef third = arena.allocate(1 << 20);
  for (const BufferRef& one : {first, second, third}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.data) % 64, 0u);
    EXPECT_EQ(one.device, context_->device());
    EXPECT_FALSE(one.read_only);
    EXPECT_TRUE(arena.contains(one.data, one.size));
    const auto region = arena.region_of(one.data, one.size);
    EXPECT_EQ(context_->export_memory(region->memory()).size, region->size());
  }
  EXPECT_FALSE(first.overlaps(second) || second.overlaps(third) || first.overlaps(third));
  EXPECT_FALSE(arena.contains(third.data, third.size + 1));
  EXPECT_FALSE(arena.contains(&arena, 1));
  EXPECT_EQ(arena.size(), 128u + 64 + (1 << 20));
}

TEST_F(DeviceArenaTest, SizeZeroGivesAPointerInside) {
  DeviceArena arena(context_);
  const BufferRef nothing = arena.allocate(0);
  EXPECT_TRUE(arena.contains(nothing.data, 1));
  EXPECT_NE(arena.allocate(0).data, nothing.data);
}

TEST_F(DeviceArenaTest, AnyQueueMayUseTheMemory) {
  driver_->set_delay(std::chrono::milliseconds(1));
  DeviceArena arena(context_);
  const BufferRef memory = arena.allocate(5);
  const BufferRef text{.data = const_cast<char*>("hello"), .size = 5, .read_only = true};
  char back[5]{};
  const Queue one = context_->make_queue();
  const Event copied = context_->copy_recorded(memory, text, one);
  const Queue other = context_->make_queue();
  context_->order_after(other, copied);
  context_->wait(context_->copy_recorded({.data = back, .size = 5}, memory.as_read_only(), other));
  EXPECT_EQ(std::string(back, 5), "hello");
}

TEST_F(DeviceArenaTest, GrowsByPiecesAsLargeAsAllBefore) {
  DeviceArena arena(context_);
  std::set<const Region*> regions;
  for (int i = 0; i < 64; ++i) {
    const BufferRef one = arena.allocate(1000);
    regions.insert(arena.region_of(one.data, one.size).get());
  }
  EXPECT_EQ(regions.size(), 7u);  // for 1, 1, 2, 4 and so on
}

TEST_F(DeviceArenaTest, WhatIsReservedIsOnePieceAndTheMost) {
  DeviceArena arena(context_, 1 << 20);
  EXPECT_EQ(driver_->counters().live_allocations, 1u);
  const BufferRef first = arena.allocate(1 << 19);
  const BufferRef second = arena.allocate(1 << 19);
  EXPECT_EQ(arena.region_of(first.data, 1), arena.region_of(second.data, 1));
  EXPECT_THAT(message_of<ResourceError>([&] { arena.allocate(1); }), HasSubstr("has room for 0 more bytes"));
  EXPECT_EQ(driver_->counters().live_allocations, 1u);
  EXPECT_THROW(DeviceArena(context_, std::uint64_t{1} << 50), InvalidArgumentError);
  EXPECT_THROW(DeviceArena(context_, 1 << 30), ResourceError);
  DeviceArena growing(context_);
  EXPECT_THROW(growing.allocate(~std::uint64_t{0}), ResourceError);
  EXPECT_THROW(growing.allocate(1 << 30), ResourceError);
  EXPECT_NO_THROW(growing.allocate(1));
}

TEST_F(DeviceArenaTest, FrozenItTakesNoMore) {
  DeviceArena arena(context_);
  const BufferRef memory = arena.allocate(1);
  arena.freeze();
  EXPECT_TRUE(arena.frozen());
  EXPECT_THROW(arena.allocate(1), ArenaFrozenError);
  EXPECT_TRUE(arena.contains(memory.data, 1));
}

TEST_F(DeviceArenaTest, TheRegionKeepsTheMemory) {
  std::shared_ptr<const Region> region;
  {
    DeviceArena arena(context_);
    region = arena.region_of(arena.allocate(10).data, 10);
    arena.allocate(1000);
    EXPECT_EQ(driver_->counters().live_allocations, 2u);
  }
  EXPECT_EQ(driver_->counters().live_allocations, 1u);
  region.reset();
  EXPECT_EQ(driver_->counters().live_allocations, 0u);
}

TEST_F(DeviceArenaTest, MemoryThatNobodyElseCanOpenIsRefused) {
  const std::shared_ptr<Context> host = make_default_registry()->find("host")->open({});
  EXPECT_THAT(message_of<UnsupportedError>([&] { DeviceArena arena(host); }),
              HasSubstr("the driver host can't hand memory to other processes"));
}

TEST_F(DeviceArenaTest, ThreadsShareOne) {
  DeviceArena arena(context_);
  std::vector<std::vector<BufferRef>> got(4);
  std::vector<std::thread> threads;
  for (auto& mine : got) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        mine.push_back(arena.allocate(64));
        EXPECT_TRUE(arena.contains(mine.back().data, 64));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<void*> different;
  for (const auto& mine : got) {
    for (const BufferRef& one : mine) different.insert(one.data);
  }
  EXPECT_EQ(different.size(), 800u);
}

TEST_F(DeviceArenaTest, AForkedChildGetsForkError) {
  DeviceArena arena(context_);
  arena.allocate(1);
  EXPECT_EQ(run_in_child([&] {
              try {
                arena.allocate(1);
              } catch (const ForkError&) {
                ::_exit(7);
              }
            }),
            7);
}

}  // namespace
}  // namespace crossdock::device
