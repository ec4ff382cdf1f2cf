#include "crossdock/exchange/sync.h"

#include <chrono>
#include <memory>
#include <string>

#include "support/message_of.h"
#include "unit/device/sim/support.h"
#include "unit/exchange/support.h"

namespace crossdock::exchange {
namespace {

using namespace std::chrono_literals;
using array::Tensor;
using crossdock::testing::made_tensor;
using crossdock::testing::message_of;
using device::SimVerb;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A tensor on a simulated device whose bytes are being written.
class ReadyTest : public device::SimTest {
 protected:
  Tensor pending() {
    context_->copy(buffer_.ref(), host(source_).as_read_only(), queue_);
    Tensor tensor = made_tensor("int8", {64}, {1}, buffer_.data());
    tensor.device = device::kZero;
    tensor.kind = device::MemoryKind::kDevice;
    tensor.event = recorded(queue_);
    return tensor;
  }
  void read(const device::Queue& queue) { context_->copy(scratch_.ref(), buffer_.ref(), queue); }

  void SetUp() override { drivers_.add(driver_); }

  device::DriverRegistry drivers_;
  std::string source_ = std::string(64, 'r');
  device::Buffer buffer_ = ready(64);
  device::Buffer scratch_ = ready(64);
};

TEST_F(ReadyTest, WithoutAnEventNothingIsWaitedFor) {
  Tensor tensor = made_tensor("int8", {64}, {1}, buffer_.data());
  EXPECT_TRUE(tensor.ready());
  const std::uint64_t before = driver_->counters().total();
  order_on(tensor, *context_, queue_);
  wait_ready(&tensor, *context_);
  EXPECT_EQ(driver_->counters().total(), before);
}

TEST_F(ReadyTest, AnEventMayBeIncomplete) {
  slow(20ms);
  Tensor tensor = pending();
  EXPECT_FALSE(tensor.ready());
  finish(queue_);
  EXPECT_FALSE(tensor.ready()) << "it asks no driver";
}

TEST_F(ReadyTest, OrderOnOrdersAndDoesntWait) {
  slow(20ms);
  Tensor tensor = pending();
  const device::Event before = tensor.event;
  order_on(tensor, *context_, other_);
  EXPECT_FALSE(tensor.ready()) << "it is as it was, for others";
  EXPECT_FALSE(context_->query(before));
  read(other_);
  EXPECT_EQ(failure_of(other_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
}

TEST_F(ReadyTest, WithoutTheOrderItIsARace) {
  slow(20ms);
  Tensor tensor = pending();
  tensor.event = {};
  order_on(tensor, *context_, other_);
  read(other_);
  EXPECT_NE(failure_of(other_), "");
  finish(queue_);  // it reads what ends with the test
}

TEST_F(ReadyTest, WaitReadyWaits) {
  slow(10ms);
  Tensor tensor = pending();
  const device::Event before = tensor.event;
  wait_ready(&tensor, *context_);
  EXPECT_TRUE(context_->query(before));
  EXPECT_TRUE(tensor.ready());
  read(other_);
  EXPECT_EQ(failure_of(other_), "");
}

TEST_F(ReadyTest, QueuesAreKeptOnceEach) {
  bool freed = false;
  Tensor tensor = made_tensor("int8", {64}, {1}, buffer_.data());
  tensor.owner = std::shared_ptr<int>(new int(0), [&](const int* gone) {
    freed = true;
    delete gone;
  });
  std::weak_ptr<int> kept_by_first;
  {
    auto held = std::make_shared<int>(0);
    kept_by_first = held;
    const device::Queue first(device::kZero, device::NativeQueue(queue_.native()), held);
    held.reset();
    const void* owner = nullptr;
    for (int i = 0; i < 4; ++i) {
      tensor.queue = i % 2 == 0 ? first : other_;
      keep_queue(&tensor);
      if (i == 1) owner = tensor.owner.get();
      if (i > 1) {
        EXPECT_EQ(tensor.owner.get(), owner) << "nothing new to keep";
      }
    }
    tensor.queue.reset();
    keep_queue(&tensor);
  }
  EXPECT_FALSE(kept_by_first.expired());
  EXPECT_FALSE(freed);
  tensor.owner.reset();
  EXPECT_TRUE(freed);
  EXPECT_TRUE(kept_by_first.expired());
}

TEST_F(ReadyTest, CopiesKeepTheirEvent) {
  slow(10ms);
  Tensor tensor = pending();
  const Tensor view = tensor;
  wait_ready(&tensor, *context_);
  EXPECT_FALSE(view.ready());
}

TEST_F(ReadyTest, TheFailureIsThrownAndStays) {
  driver_->fail_work(0, SystemError("the kernel before it failed"));
  Tensor tensor = pending();
  EXPECT_THAT(message_of<SystemError>([&] { wait_ready(&tensor, *context_); }), HasSubstr("the kernel"));
  EXPECT_NE(tensor.event.native(), nullptr) << "it is as it was";
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(tensor.ready(), SystemError);
    EXPECT_THROW(order_on(tensor, *context_, other_), SystemError);
    EXPECT_THROW(wait_ready(&tensor, *context_), SystemError);
  }
}

TEST_F(ReadyTest, AFailureWithoutANativeEventIsOneToo) {
  Tensor tensor = made_tensor("int8", {64}, {1}, buffer_.data());
  tensor.event = device::Event::failed(std::make_shared<const SystemError>("never started"));
  EXPECT_THAT(message_of<SystemError>([&] { tensor.ready(); }), HasSubstr("never started"));
  EXPECT_THROW(order_on(tensor, *context_, queue_), SystemError);
  EXPECT_THROW(wait_ready(&tensor, *context_), SystemError);
}

TEST_F(ReadyTest, AVerbThatFailsLeavesTheEvent) {
  slow(5ms);
  Tensor tensor = pending();
  driver_->fail_next(SimVerb::kOrderAfter, 0, ResourceError("no more"));
  EXPECT_THROW(order_on(tensor, *context_, other_), ResourceError);
  driver_->fail_next(SimVerb::kWait, 0, ResourceError("no more"));
  EXPECT_THROW(wait_ready(&tensor, *context_), ResourceError);
  EXPECT_FALSE(tensor.ready());
  wait_ready(&tensor, *context_);
  EXPECT_TRUE(tensor.ready());
}

TEST_F(ReadyTest, WorkAddedIsPendingBesidesTheRest) {
  slow(10ms);
  Tensor tensor = made_tensor("int8", {64}, {1}, buffer_.data());
  tensor.device = device::kZero;
  add_work(&tensor, context_, device::Event(), drivers_);
  EXPECT_TRUE(tensor.ready()) << "a complete event adds nothing";
  context_->copy(buffer_.ref(), host(source_).as_read_only(), queue_);
  const device::Event first = recorded(queue_);
  add_work(&tensor, context_, first, drivers_);
  EXPECT_EQ(tensor.event.native(), first.native());
  EXPECT_FALSE(tensor.queue);
  context_->copy(scratch_.ref(), host(source_).as_read_only(), other_);
  const device::Event second = recorded(other_);
  add_work(&tensor, context_, second, drivers_);
  context_->wait(tensor.pending());
  EXPECT_TRUE(context_->query(first));
  EXPECT_TRUE(context_->query(second));
}

TEST_F(ReadyTest, WorkAddedComesBeforeTheMemorysQueue) {
  slow(10ms);
  Tensor tensor = made_tensor("int8", {64}, {1}, buffer_.data());
  tensor.device = device::kZero;
  tensor.set_queue(context_, other_);
  context_->copy(buffer_.ref(), host(source_).as_read_only(), queue_);
  add_work(&tensor, context_, recorded(queue_), drivers_);
  EXPECT_EQ(tensor.queue, other_);
  read(other_);
  EXPECT_EQ(failure_of(other_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
  const auto failed = device::Event::failed(std::make_shared<const SystemError>("never started"));
  EXPECT_THROW(add_work(&tensor, context_, failed, drivers_), SystemError);
}

TEST_F(ReadyTest, WorkOfAnotherDeviceIsWaitedForUnlessTheMemoryIsTheHosts) {
  const auto second = driver_->open(device::kOne);
  const device::Event other = second->record(second->make_queue());
  int waited = 0;
  const WaitFunction counted = [&](const std::shared_ptr<device::Context>& context, const device::Event& event) {
    ++waited;
    context->wait(event);
  };
  Tensor there = made_tensor("int8", {64}, {1}, buffer_.data());
  there.device = device::kZero;
  add_work(&there, second, other, drivers_, counted);
  EXPECT_EQ(waited, 1);
  EXPECT_TRUE(there.ready()) << "an event that is handed on is one of the memory's device";
  Tensor here = made_tensor("int8", {64}, {1}, source_.data());
  add_work(&here, second, other, drivers_, counted);
  EXPECT_EQ(waited, 1);
  EXPECT_EQ(here.event.native(), other.native());
  EXPECT_EQ(context_of_work(here, drivers_), second);
  wait_for(here, drivers_, counted);
  EXPECT_EQ(waited, 2);
  add_work(&here, context_, recorded(queue_), drivers_, counted);
  EXPECT_EQ(waited, 3) << "beside another device's";
}

}  // namespace
}  // namespace crossdock::exchange
