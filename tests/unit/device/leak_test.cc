#include "device/leak.h"

#include <gtest/gtest.h>

#include <memory>

#include "support/failing_allocations.h"

namespace crossdock::device {
namespace {

using crossdock::testing::FailingAllocations;
using crossdock::testing::Whose;

TEST(Leak, KeepsAnOwnerWithMemoryAndWithout) {
  static std::weak_ptr<int> kept[2];  // static, so that leak checkers find both
  for (std::weak_ptr<int>& one : kept) {
    auto owner = std::make_shared<int>(0);
    one = owner;
    const FailingAllocations failing(Whose::kMine, 0, &one == &kept[0] ? 0 : 1);
    leak(std::move(owner));
    EXPECT_FALSE(one.expired());
  }
}

}  // namespace
}  // namespace crossdock::device
