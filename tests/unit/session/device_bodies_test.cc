#include "session/device_bodies.h"

#include <gtest/gtest.h>

#include <vector>

#include "device/sim.h"
#include "dissociated/wire.h"

namespace crossdock::session {
namespace {

class DeviceBodiesTest : public ::testing::Test {
 protected:
  static std::uintptr_t address(const std::shared_ptr<std::byte>& body) {
    return reinterpret_cast<std::uintptr_t>(body.get());
  }
  std::vector<std::byte> download(const std::byte* from, std::size_t size) {
    std::vector<std::byte> bytes(size);
    const device::Queue queue = context_->make_queue();
    context_->copy(
        {.data = bytes.data(), .size = size, .device = {}, .kind = device::MemoryKind::kHost, .read_only = false},
        {.data = const_cast<std::byte*>(from),
         .size = size,
         .device = context_->device(),
         .kind = device::MemoryKind::kDevice,
         .read_only = true},
        queue);
    context_->wait(context_->record(queue));
    return bytes;
  }

  const std::shared_ptr<device::SimDriver> driver_ = device::make_sim_driver({.devices = 1});
  const std::shared_ptr<device::Context> context_ = driver_->open({.type = device::DeviceType::kExtDev, .id = 0});
  DeviceBodies bodies_{context_};
};

TEST_F(DeviceBodiesTest, SmallOnesShareABlockAndAreAligned) {
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < 1000; ++i) held.push_back(bodies_.allocate(1 + static_cast<std::uint64_t>(i % 64)));
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(address(held[i]), address(held[0]) + 64 * i);
    EXPECT_EQ(DeviceBodies::context_of(held[i]), context_);
  }
}

TEST_F(DeviceBodiesTest, ABodyThatDoesntFitBeginsABlock) {
  const auto first = bodies_.allocate(DeviceBodies::kMostInBlock);
  const auto second = bodies_.allocate(DeviceBodies::kMostInBlock - 64);
  const auto third = bodies_.allocate(65);
  EXPECT_EQ(address(second), address(first) + DeviceBodies::kMostInBlock);
  EXPECT_TRUE(address(third) < address(first) || address(third) >= address(first) + DeviceBodies::kBlock);
  EXPECT_EQ(address(bodies_.allocate(0)), address(third) + 128) << "no bytes need no place";
}

TEST_F(DeviceBodiesTest, ALargeOneHasMemoryOfItsOwn) {
  const auto small = bodies_.allocate(64);
  const auto large = bodies_.allocate(DeviceBodies::kMostInBlock + 1);
  EXPECT_EQ(address(bodies_.allocate(64)), address(small) + 64) << "the block goes on";
  EXPECT_EQ(DeviceBodies::context_of(large), context_);
}

TEST_F(DeviceBodiesTest, ABlockLivesAsLongAsItsBodies) {
  auto first = bodies_.allocate(100);
  const auto second = bodies_.allocate(100);
  const std::vector<std::byte> bytes(100, std::byte{7});
  bodies_.write(second.get(), bytes);
  first.reset();
  bodies_.allocate(DeviceBodies::kMostInBlock);
  bodies_.allocate(DeviceBodies::kMostInBlock);  // in another block
  EXPECT_EQ(download(second.get(), 100), bytes);
}

TEST_F(DeviceBodiesTest, MemoryThatIsThereIsToldAsABodys) {
  auto owner = bodies_.allocate(100);
  std::byte* const memory = owner.get();
  const std::weak_ptr<std::byte> alive = owner;
  auto lent = DeviceBodies::lend(context_, memory, std::move(owner));
  EXPECT_EQ(lent.get(), memory);
  EXPECT_EQ(DeviceBodies::context_of(lent), context_);
  EXPECT_FALSE(alive.expired());
  lent.reset();
  EXPECT_TRUE(alive.expired());
}

TEST_F(DeviceBodiesTest, TakesBodiesByValueAlone) {
  EXPECT_TRUE(bodies_.takes(dissociated::write_tag(7, dissociated::BodyType::kPacked)));
  EXPECT_FALSE(bodies_.takes(dissociated::write_tag(7, dissociated::BodyType::kRemote)));
}

}  // namespace
}  // namespace crossdock::session
