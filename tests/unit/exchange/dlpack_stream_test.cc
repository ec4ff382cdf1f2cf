#include "crossdock/exchange/dlpack.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "support/cuda_target_test.h"
#include "support/message_of.h"
#include "unit/device/sim/support.h"
#include "unit/device/support.h"
#include "unit/exchange/support.h"

namespace crossdock::exchange {
namespace {

using namespace std::chrono_literals;
using array::Tensor;
using crossdock::testing::CudaTargetTest;
using crossdock::testing::kDelay;
using crossdock::testing::kFirst;
using crossdock::testing::kSecond;
using crossdock::testing::made_tensor;
using crossdock::testing::message_of;
using device::Device;
using device::DeviceType;
using device::MemoryKind;
using device::Queue;
using ::testing::HasSubstr;

std::int64_t number(const void* handle) { return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(handle)); }

std::string refused(const Device& device, DLPackStream stream) {
  return message_of<InvalidArgumentError>([&] { check_dlpack_stream(device, stream); });
}

TEST(DlpackStreamTest, StreamsThatDevicesHave) {
  for (const DeviceType type : {DeviceType::kCpu, DeviceType::kCuda, DeviceType::kCudaHost, DeviceType::kCudaManaged,
                                DeviceType::kRocm, DeviceType::kRocmHost, DeviceType::kOneApi, DeviceType::kExtDev}) {
    check_dlpack_stream({type, 0}, std::nullopt);
    check_dlpack_stream({type, 0}, kDLPackNoOrder);
    EXPECT_THAT(refused({type, 0}, -2), HasSubstr("stream must be -1"));
    EXPECT_THAT(refused({type, 0}, INT64_MIN), HasSubstr("stream must be -1"));
  }
  for (const DeviceType type : {DeviceType::kCuda, DeviceType::kCudaHost, DeviceType::kCudaManaged}) {
    for (const std::int64_t stream : {std::int64_t{1}, std::int64_t{2}, INT64_MAX})
      check_dlpack_stream({type, 0}, stream);
    EXPECT_THAT(refused({type, 0}, 0), HasSubstr("ambiguous"));
  }
  for (const DeviceType type : {DeviceType::kRocm, DeviceType::kRocmHost}) {
    for (const std::int64_t stream : {0, 3}) check_dlpack_stream({type, 0}, stream);
    for (const std::int64_t stream : {1, 2}) EXPECT_THAT(refused({type, 0}, stream), HasSubstr("ROCm"));
  }
  for (const std::int64_t stream : {0, 1, 2, 64}) {
    EXPECT_THAT(refused({}, stream), HasSubstr("host memory has no streams"));
    EXPECT_THAT(refused({DeviceType::kOneApi, 0}, stream), HasSubstr("SYCL queue"));
    check_dlpack_stream(device::kZero, stream);
  }
}

class DlpackStreamSim : public device::SimTest {
 protected:
  DlpackStreamSim() {
    std::iota(numbers_.begin(), numbers_.end(), 0.0);
    drivers_.add(device::make_default_registry()->find("host"));
    drivers_.add(driver_);
    mine_ = drivers_.context(device::kZero)->make_queue();
    theirs_ = drivers_.context(device::kZero)->make_queue();
    across_ = drivers_.context(device::kOne)->make_queue();
  }
  void TearDown() override {
    // What is under way reads the numbers, which go next.
    const auto context = drivers_.context(device::kZero);
    context->wait(context->record(mine_));
    EXPECT_EQ(driver_->faults().size(), expected_faults_);
  }

  /// A tensor of device 0 whose bytes are still on their way, on a queue of ours.
  Tensor under_way() {
    slow(5ms);
    const Tensor source = made_tensor("float64", {24}, {8}, numbers_.data());
    return transfer(source, device::kZero, {}, &mine_, drivers_);
  }
  void order(Tensor* tensor, DLPackStream stream, const Device& of = device::kZero) {
    order_for_dlpack(*tensor, of, stream, drivers_, counted());
  }
  /// What a consumer reads on a queue, which does nothing about the order.
  std::vector<double> read_on(Tensor tensor, const Queue& queue) {
    tensor.event = {};
    tensor.queue.reset();
    return values(transfer(tensor, Device{}, {}, &queue, drivers_));
  }
  std::vector<double> values(const Tensor& here) {
    wait_for(here, drivers_, wait_in_driver);
    const auto* first = static_cast<const double*>(here.data);
    return {first, first + here.size()};
  }
  WaitFunction counted() {
    return [this](const std::shared_ptr<device::Context>& context, const device::Event& event) {
      ++waited_;
      context->wait(event);
    };
  }

  device::DriverRegistry drivers_;
  std::vector<double> numbers_ = std::vector<double>(24);
  Queue mine_ = queue_, theirs_ = queue_, across_ = queue_;
  int waited_ = 0;
  std::size_t expected_faults_ = 0;
};

TEST_F(DlpackStreamSim, TheStreamThatIsNamedComesAfterTheWork) {
  Tensor tensor = under_way();
  order(&tensor, number(theirs_.native()));
  EXPECT_EQ(read_on(tensor, theirs_), numbers_);
  EXPECT_EQ(waited_, 0);
}

TEST_F(DlpackStreamSim, AStreamOfAnotherDeviceIsOrderedThere) {
  Tensor tensor = under_way();
  const device::Event before = tensor.event;
  order(&tensor, number(across_.native()));
  const auto there = drivers_.context(device::kOne);
  there->wait(there->record(across_));
  EXPECT_TRUE(drivers_.context(device::kZero)->query(before));
  EXPECT_EQ(waited_, 0);
}

TEST_F(DlpackStreamSim, NoOrderIsNone) {
  Tensor tensor = under_way();
  order(&tensor, kDLPackNoOrder);
  EXPECT_EQ(waited_, 0);
  EXPECT_THROW(read_on(tensor, theirs_), Error) << "the consumer was to see to it, and didn't";
  expected_faults_ = 1;
}

TEST_F(DlpackStreamSim, WithoutADefaultStreamItIsWaitedFor) {
  Tensor tensor = under_way();
  order(&tensor, std::nullopt);
  EXPECT_EQ(waited_, 1);
  EXPECT_EQ(read_on(tensor, theirs_), numbers_);
}

TEST_F(DlpackStreamSim, AStreamOfAnotherDriversCopyIsWaitedFor) {
  Tensor tensor = under_way();
  order(&tensor, number(theirs_.native()), kFirst);
  EXPECT_EQ(waited_, 1) << "the number may be one of ours, and means nothing here";
  tensor = under_way();
  Tensor copied = transfer(tensor, Device{}, {}, &mine_, drivers_);
  order(&copied, number(theirs_.native()));
  EXPECT_EQ(waited_, 2) << "the host's";
  EXPECT_EQ(values(copied), numbers_);
}

TEST_F(DlpackStreamSim, AStreamThatNobodyKnows) {
  Tensor tensor = under_way();
  int made_up = 0;
  EXPECT_THROW(order_for_dlpack(tensor, device::kZero, number(&made_up), drivers_), InvalidArgumentError);
  EXPECT_FALSE(tensor.event.native() == nullptr) << "nothing is forgotten";
  wait_for(tensor, drivers_, wait_in_driver);
}

TEST_F(DlpackStreamSim, AQueueIsAStreamToo) {
  Tensor tensor = under_way();
  order_on(tensor, theirs_, drivers_, counted());
  EXPECT_EQ(read_on(tensor, theirs_), numbers_);
  EXPECT_EQ(waited_, 0);
  tensor = under_way();
  order_on(tensor, drivers_.context(Device{})->make_queue(), drivers_, counted());
  EXPECT_EQ(waited_, 1) << "another driver's";
}

TEST_F(DlpackStreamSim, WhatComesInIsOnTheStreamThatWasAsked) {
  Tensor tensor = under_way();
  tensor.event = {};
  tensor.queue.reset();
  note_dlpack_stream(&tensor, device::kZero, mine_, drivers_);
  EXPECT_EQ(tensor.queue, mine_);
  order_on(tensor, *drivers_.context(device::kZero), theirs_);
  EXPECT_EQ(read_on(tensor, theirs_), numbers_);
  Tensor unasked = tensor;
  unasked.queue.reset();
  note_dlpack_stream(&unasked, device::kZero, std::nullopt, drivers_);
  EXPECT_FALSE(unasked.queue) << "simulated devices have no default stream";
  Tensor here = made_tensor("float64", {24}, {8}, numbers_.data());
  note_dlpack_stream(&here, Device{}, mine_, drivers_);
  EXPECT_FALSE(here.queue);
}

TEST_F(DlpackStreamSim, OfOursTheWorkStreamIsTheDefaultQueue) {
  const Queue work = drivers_.default_queue(device::kZero);
  EXPECT_EQ(work_stream(device::kZero, drivers_), work.native());
  EXPECT_EQ(work_stream({}, drivers_), nullptr);
  EXPECT_EQ(work_stream(kFirst, drivers_), nullptr);
  Tensor tensor = under_way();
  order_on_work_stream(tensor, drivers_, counted());
  EXPECT_EQ(read_on(tensor, work), numbers_);
  EXPECT_EQ(waited_, 0);
  note_work_stream(&tensor, drivers_);
  EXPECT_EQ(tensor.queue, work);
}

TEST_F(DlpackStreamSim, OfTheirsItIsWhatTheySay) {
  Tensor tensor = under_way();
  EXPECT_EQ(device_of_producer_stream(tensor, drivers_), device::kZero);
  tensor.event = {};
  note_producer_stream(&tensor, device::NativeQueue(across_.native()), drivers_);
  EXPECT_EQ(tensor.queue, across_) << "whichever device's it is";
  tensor.device = {};
  EXPECT_EQ(device_of_producer_stream(tensor, drivers_), std::nullopt);
  tensor.device = {DeviceType::kMetal, 0};
  EXPECT_EQ(device_of_producer_stream(tensor, drivers_), std::nullopt) << "nobody here could order it";
  tensor.device = {DeviceType::kCudaManaged, 3};
  EXPECT_EQ(device_of_producer_stream(tensor, drivers_), (Device{DeviceType::kCuda, 3}));
}

TEST(DlpackStreamTest, WithoutADriverTheStreamIsCarried) {
  const device::DriverRegistry none;
  char byte = 0;
  for (const auto& [device, standard, another] :
       {std::tuple{kFirst, std::int64_t{1}, std::int64_t{2}},
        std::tuple{Device{DeviceType::kRocm, 0}, std::int64_t{0}, std::int64_t{7}}}) {
    Tensor tensor = made_tensor("int8", {1}, {1}, &byte);
    tensor.device = device;
    note_dlpack_stream(&tensor, device, std::nullopt, none);
    EXPECT_TRUE(tensor.out_of_reach());
    EXPECT_EQ(number(tensor.queue->native()), standard);
    for (const DLPackStream same : {DLPackStream{}, DLPackStream{standard}}) {
      EXPECT_NO_THROW(order_for_dlpack(tensor, device, same, none)) << "the very stream that the work is on";
    }
    EXPECT_THROW(order_for_dlpack(tensor, device, another, none), ExportError);
    EXPECT_NO_THROW(order_for_dlpack(tensor, device, kDLPackNoOrder, none)) << "no order is asked for";
    EXPECT_NO_THROW(order_on_work_stream(tensor, none));
    note_producer_stream(&tensor, device::NativeQueue(reinterpret_cast<void*>(std::intptr_t{77})), none);
    EXPECT_EQ(number(tensor.queue->native()), 77);
    EXPECT_THROW(order_on_work_stream(tensor, none), ExportError);
    note_producer_stream(&tensor, device::NativeQueue(), none);
    EXPECT_EQ(number(tensor.queue->native()), standard);
    note_work_stream(&tensor, none);
    EXPECT_EQ(number(tensor.queue->native()), standard);
  }
}

class DlpackStreamCuda : public CudaTargetTest {
 protected:
  void SetUp() override {
    CudaTargetTest::SetUp();
    if (IsSkipped()) return;
    drivers_.add(device::make_default_registry()->find("host"));
    drivers_.add(driver_);
    context_ = drivers_.context(kFirst);
    two_ = driver_->devices().size() > 1;
  }
  void TearDown() override {
    if (context_ != nullptr && on_fake()) crossdock::testing::expect_no_faults(*cuda_);
  }
  /// A tensor whose bytes are on their way there, on a queue of ours on its device.
  Tensor under_way(const Device& where = kFirst) {
    slow_down(kDelay);
    const Queue queue = drivers_.context(where)->make_queue();
    return transfer(made_tensor("int8", {256}, {1}, bytes_.data()), where, {}, &queue, drivers_);
  }
  /// Orders a consumer's stream, and reads on it; `waits`: how often that waits.
  void expect_ordered(Tensor tensor, DLPackStream stream, const Queue& on, int waits = 0) {
    int waited = 0;
    order_for_dlpack(tensor, tensor.device, stream, drivers_,
                     [&](const std::shared_ptr<device::Context>& context, const device::Event& event) {
                       ++waited;
                       context->wait(event);
                     });
    EXPECT_EQ(waited, waits);
    EXPECT_EQ(read_on(tensor, on), bytes_);
  }
  /// By way of memory of the queue's own device: so every device's queue may read it.
  std::string read_on(const Tensor& tensor, const Queue& queue) {
    std::string bytes(256, '?');
    const auto context = drivers_.context(queue.device());
    device::Buffer staging = context->allocate(256, MemoryKind::kDevice, device::Sharing::kPrivate, queue);
    context->copy(staging.ref(),
                  {.data = tensor.data, .size = 256, .device = tensor.device, .kind = tensor.kind, .read_only = true},
                  queue);
    context->copy({.data = bytes.data(), .size = 256, .device = {}, .kind = MemoryKind::kHost, .read_only = false},
                  staging.ref(), queue);
    context->free(std::move(staging), queue);
    context->wait(context->record(queue));
    return bytes;
  }
  Queue named(std::intptr_t stream, const Device& device = kFirst) const {
    return drivers_.context(device)->wrap_queue(device::NativeQueue(reinterpret_cast<void*>(stream)), nullptr);
  }

  device::DriverRegistry drivers_;
  std::shared_ptr<device::Context> context_;
  std::string bytes_ = std::string(256, 'd');
  bool two_ = false;
};

TEST_P(DlpackStreamCuda, TheStreamThatIsNamedComesAfterTheWork) {
  const Queue theirs = context_->make_queue();
  expect_ordered(under_way(), std::nullopt, named(1));
  expect_ordered(under_way(), 1, named(1));
  expect_ordered(under_way(), 2, named(2));
  expect_ordered(under_way(), number(theirs.native()), theirs);
}

TEST_P(DlpackStreamCuda, AStreamOfAnotherDevice) {
  if (!two_) GTEST_SKIP() << "one device";
  const Queue theirs = drivers_.context(kSecond)->make_queue();
  expect_ordered(under_way(), number(theirs.native()), theirs);
}

TEST_P(DlpackStreamCuda, MemoryThatEveryDeviceReaches) {
  for (const DeviceType type : {DeviceType::kCudaHost, DeviceType::kCudaManaged}) {
    for (const std::int64_t id : {0, 1}) {
      if (id > 0 && !two_) continue;
      const Device where{type, id};
      const Queue theirs = drivers_.context({DeviceType::kCuda, two_ ? 1 - id : 0})->make_queue();
      expect_ordered(under_way(where), number(theirs.native()), theirs);
      expect_ordered(under_way(where), 1, named(1, {DeviceType::kCuda, id}));
      expect_ordered(under_way(where), 1, named(1));  // device 0's, by its number in DLPack
      expect_ordered(under_way(where), std::nullopt, theirs, 1);
    }
  }
}

TEST_P(DlpackStreamCuda, WhoSaysNothingHasUsedTheLegacyStream) {
  Tensor tensor = under_way();
  context_->order_after(named(1), tensor.event);
  tensor.event = {};
  tensor.queue.reset();
  note_dlpack_stream(&tensor, kFirst, std::nullopt, drivers_);
  ASSERT_TRUE(tensor.queue);
  EXPECT_EQ(number(tensor.queue->native()), 1);
  const Queue mine = context_->make_queue();
  order_on(tensor, *context_, mine);
  EXPECT_EQ(read_on(tensor, mine), bytes_);
}

TEST_P(DlpackStreamCuda, PinnedMemoryIsWaitedForBeforeItIsOnOurWorkStream) {
  Tensor tensor = under_way({DeviceType::kCudaHost, 0});
  const device::Event work = tensor.event;
  order_on_work_stream(tensor, drivers_);
  EXPECT_TRUE(context_->query(work));
  tensor = under_way({DeviceType::kCudaManaged, 0});
  order_on_work_stream(tensor, drivers_);
  EXPECT_EQ(read_on(tensor, drivers_.default_queue(kFirst)), bytes_);
}

TEST_P(DlpackStreamCuda, OurWorkStreamIsOneOfTheMemorysDevice) {
  if (!two_) GTEST_SKIP() << "one device";
  Tensor tensor = under_way();
  const Queue across = drivers_.context(kSecond)->make_queue();
  drivers_.context(kSecond)->order_after(across, tensor.pending());
  tensor.set_queue(drivers_.context(kSecond), across);  // worked on by a peer
  order_on_work_stream(tensor, drivers_);
  EXPECT_EQ(read_on(tensor, drivers_.default_queue(kFirst)), bytes_);
}

CROSSDOCK_ON_CUDA(DlpackStreamCuda);

}  // namespace
}  // namespace crossdock::exchange
