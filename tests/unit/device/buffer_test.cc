#include "crossdock/device/device.h"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>
#include <utility>

namespace crossdock::device {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer>, "a Buffer is an owner: copying it must not compile");
static_assert(!std::is_convertible_v<BufferRef, Buffer>, "a view must not turn into an owner");

class BufferTest : public ::testing::Test {
 protected:
  Buffer make() {
    const BufferRef memory{
        .data = bytes_.data(), .size = bytes_.size(), .device = {}, .kind = MemoryKind::kHost, .read_only = false};
    return {memory, std::shared_ptr<void>(bytes_.data(), [this](void*) { ++dropped_; })};
  }
  std::array<std::byte, 16> bytes_{};
  int dropped_ = 0;
};

TEST_F(BufferTest, DropsItsOwnerOnce) {
  {
    Buffer buffer = make();
    Buffer moved = std::move(buffer);
    EXPECT_EQ(buffer.data(), nullptr);  // NOLINT: what a moved-from Buffer is, is part of its contract
    EXPECT_EQ(buffer.size(), 0u);
    EXPECT_EQ(moved.data(), bytes_.data());
    EXPECT_EQ(dropped_, 0);
  }
  EXPECT_EQ(dropped_, 1);
}

TEST_F(BufferTest, AssigningDropsWhatWasThere) {
  Buffer buffer = make();
  buffer = Buffer();
  EXPECT_EQ(dropped_, 1);
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST_F(BufferTest, ReleaseGivesTheOwnerAway) {
  Buffer buffer = make();
  std::shared_ptr<void> owner = buffer.release();
  EXPECT_EQ(buffer.data(), nullptr);
  buffer = Buffer();
  EXPECT_EQ(dropped_, 0);
  owner.reset();
  EXPECT_EQ(dropped_, 1);
}

TEST_F(BufferTest, ViewsAreSlicedAndKeptReadOnly) {
  const Buffer buffer = make();
  const BufferRef part = buffer.ref().as_read_only().slice(4, 8);
  EXPECT_EQ(part.data, bytes_.data() + 4);
  EXPECT_EQ(part.size, 8u);
  EXPECT_TRUE(part.read_only);
  EXPECT_FALSE(buffer.read_only());
}

}  // namespace
}  // namespace crossdock::device
