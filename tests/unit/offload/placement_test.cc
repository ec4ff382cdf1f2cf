#include "crossdock/offload/placement.h"

#include <array>
#include <span>
#include <string>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "support/message_of.h"
#include "unit/device/support.h"
#include "unit/offload/support.h"

namespace crossdock::offload {
namespace {

using array::Tensor;
using crossdock::testing::message_of;
using device::MemoryKind;
using device::Queue;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PlacementTest : public OffloadTest {
 protected:
  Tensor made(const device::Device& device, MemoryKind kind, const Queue& queue) const {
    return exchange::empty(array::ElementType{}, std::vector<std::int64_t>{4}, drivers_->context(device), kind, queue);
  }
  Tensor on(const Queue& queue, MemoryKind kind = MemoryKind::kDevice) const {
    return made(queue.device(), kind, queue);
  }
  Tensor host() const { return made({}, MemoryKind::kHost, queues_->queue("host")); }
  Placement placed(std::vector<Tensor> arrays, const std::optional<Queue>& queue = std::nullopt) const {
    std::vector<const Tensor*> pointers;
    for (const Tensor& array : arrays) pointers.push_back(&array);
    return placement(pointers, queue, *drivers_);
  }

  const Queue zero_ = queues_->queue("gpu:0");
  const Queue one_ = queues_->queue("gpu:1");
  const Queue second_ = queues_->queue(kZero, "second");
};

TEST_F(PlacementTest, IsWhereTheArraysAre) {
  EXPECT_EQ(placed({on(one_)}).queue, one_);
  EXPECT_EQ(placed({on(one_), on(one_)}).queue, one_);
  EXPECT_EQ(placed({on(second_), on(second_)}).queue, second_);
  Tensor nameless = on(zero_);
  nameless.queue.reset();
  EXPECT_EQ(placed({nameless, on(zero_)}).queue, zero_);
  EXPECT_EQ(queue_of(nameless, *drivers_), zero_);
}

TEST_F(PlacementTest, ArraysOfTheHostDontVote) {
  EXPECT_EQ(placed({}).queue, std::nullopt);
  EXPECT_EQ(placed({host(), host()}).queue, std::nullopt);
  EXPECT_EQ(placed({host(), on(one_), host()}).queue, one_);
  EXPECT_EQ(queue_of(host(), *drivers_), std::nullopt);
  Tensor pinned = host();
  pinned.device = {.type = device::DeviceType::kCudaHost, .id = 0};
  const Tensor one = on(one_);
  const Tensor* const arrays[] = {&pinned, &one};
  EXPECT_EQ(first_queue_of(arrays, *drivers_), one_);
  EXPECT_EQ(first_queue_of(std::span(arrays).first(1), *drivers_), std::nullopt);
}

TEST_F(PlacementTest, MemoryOfTheHostIsNobodysWhateverBroughtItThere) {
  Tensor brought = host();
  brought.set_queue(drivers_->context(kZero), zero_);
  EXPECT_EQ(placed({brought, on(one_)}).queue, one_);
  EXPECT_EQ(placed({brought}).queue, std::nullopt);
}

TEST_F(PlacementTest, CollocatesWithoutACopyWhereTheQueueReaches) {
  const Tensor array = on(one_);
  const Tensor near = collocate(array, queues_->queue(kOne, "near"), *drivers_);
  EXPECT_EQ(near.data, array.data);
  EXPECT_EQ(near.queue, queues_->queue(kOne, "near"));
  const Tensor far = collocate(array, zero_, *drivers_);
  EXPECT_NE(far.data, array.data);
  EXPECT_EQ(far.device, kZero);
  EXPECT_EQ(far.queue, zero_);
  const Tensor sent = collocate(host(), zero_, *drivers_);
  EXPECT_EQ(sent.queue, zero_);
  const Tensor returned = collocate(sent, queues_->queue("host"), *drivers_);
  EXPECT_EQ(returned.device, device::Device{});
  EXPECT_EQ(returned.queue, std::nullopt);
  EXPECT_TRUE(returned.event.native() == nullptr);
  drivers_->context(kZero)->wait(drivers_->context(kZero)->record(zero_));
  drivers_->context(kOne)->wait(drivers_->context(kOne)->record(one_));
}

TEST_F(PlacementTest, RefusesTwoQueuesAndSaysWhatToDo) {
  EXPECT_THAT(message_of<ExecutionPlacementError>([&] {
                placed({host(), on(zero_), on(one_)});
              }),
              AllOf(HasSubstr("array 1 is on queue"), HasSubstr("of ext_dev:0"), HasSubstr("array 2 on queue"),
                    HasSubstr("of ext_dev:1"), HasSubstr("collocate()"), HasSubstr("devices differ")));
  EXPECT_THAT(message_of<ExecutionPlacementError>([&] {
                placed({on(zero_), on(second_)});
              }),
              AllOf(HasSubstr("array 0"), HasSubstr("array 1"), HasSubstr("contexts differ")));
}

TEST_F(PlacementTest, ANamedQueueMustReachThemAll) {
  EXPECT_EQ(placed({on(zero_), on(second_), host()}, second_).queue, second_);
  EXPECT_EQ(placed({host()}, one_).queue, one_);
  EXPECT_THAT(
      message_of<ExecutionPlacementError>([&] {
        placed({on(zero_), on(one_)}, zero_);
      }),
      AllOf(HasSubstr("array 1"), HasSubstr("memory of ext_dev:1"), HasSubstr("of ext_dev:0"), HasSubstr("copy_to()")));
}

TEST_F(PlacementTest, KindsOfMemoryAreCoerced) {
  const Tensor device = on(zero_);
  const Tensor shared = on(zero_, MemoryKind::kShared);
  const Tensor pinned = on(zero_, MemoryKind::kHost);
  EXPECT_EQ(placed({pinned}).kind, MemoryKind::kHost);
  EXPECT_EQ(placed({pinned, shared}).kind, MemoryKind::kShared);
  EXPECT_EQ(placed({shared, device, pinned}).kind, MemoryKind::kDevice);
  EXPECT_EQ(placed({shared, host()}).kind, MemoryKind::kShared);
  EXPECT_EQ(placed({host()}).kind, MemoryKind::kHost);
}

TEST_F(PlacementTest, AccessibleIsWhatAQueueReaches) {
  EXPECT_TRUE(accessible(on(zero_), zero_, *drivers_));
  EXPECT_TRUE(accessible(on(zero_), second_, *drivers_));
  EXPECT_FALSE(accessible(on(zero_), one_, *drivers_));
  EXPECT_FALSE(accessible(host(), zero_, *drivers_));
  EXPECT_FALSE(accessible(on(zero_), queues_->queue("host"), *drivers_));
  EXPECT_TRUE(accessible(on(zero_, MemoryKind::kShared), queues_->queue("host"), *drivers_));
}

TEST_F(PlacementTest, PutsNothingOnAnyQueue) {
  const Tensor one = on(zero_);
  const Tensor two = on(zero_);
  sim_->reset();
  EXPECT_EQ(placed({one, two}).queue, zero_);
  EXPECT_EQ(sim_->counters().total(), 0u);
}

}  // namespace
}  // namespace crossdock::offload
