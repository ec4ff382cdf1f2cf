#include "crossdock/exchange/copy.h"

#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "crossdock/exchange/sync.h"
#include "unit/device/sim/support.h"
#include "unit/exchange/support.h"

namespace crossdock::exchange {
namespace {

using namespace std::chrono_literals;
using array::Tensor;
using crossdock::testing::made_tensor;
using device::Device;
using device::Queue;
using ::testing::IsEmpty;

class TransferTest : public device::SimTest {
 protected:
  TransferTest() {
    std::iota(numbers_.begin(), numbers_.end(), 0.0);
    drivers_.add(device::make_default_registry()->find("host"));
    drivers_.add(driver_);
  }
  void TearDown() override { EXPECT_THAT(driver_->faults(), IsEmpty()); }

  Tensor source() { return made_tensor("float64", {4, 6}, {48, 8}, numbers_.data()); }
  Tensor sent(const Device& to, const Queue* queue = nullptr) {
    return transfer(source(), to, {}, queue, drivers_, counted());
  }
  std::vector<double> values(const Tensor& from) {
    const Tensor here = transfer(from, Device{}, {}, nullptr, drivers_);
    const auto* first = static_cast<const double*>(here.data);
    return {first, first + here.size()};
  }
  std::vector<double> numbers() const { return {numbers_.begin(), numbers_.begin() + 24}; }
  /// Counts how often it was waited so.
  WaitFunction counted() {
    return [this](const std::shared_ptr<device::Context>& context, const device::Event& event) {
      ++waited_;
      context->wait(event);
    };
  }

  device::DriverRegistry drivers_;
  std::vector<double> numbers_ = std::vector<double>(48);
  int waited_ = 0;
};

TEST_F(TransferTest, BetweenAnyTwoPlaces) {
  const Tensor there = sent(device::kZero);
  EXPECT_EQ(there.device, device::kZero);
  EXPECT_TRUE(drivers_.context(device::kZero)->query(there.event));
  EXPECT_EQ(waited_, 1) << "the source is its owner's again";
  const Tensor across = transfer(there, device::kOne, {}, nullptr, drivers_, counted());
  EXPECT_EQ(across.device, device::kOne);
  EXPECT_EQ(waited_, 1) << "from device to device nobody waits";
  EXPECT_EQ(values(across), numbers());
  const Tensor within = transfer(source(), Device{}, {}, nullptr, drivers_, counted());
  EXPECT_NE(within.data, numbers_.data());
  EXPECT_EQ(values(within), numbers());
}

TEST_F(TransferTest, OnANamedQueueNobodyWaits) {
  slow(3ms);
  const Queue queue = drivers_.context(device::kZero)->make_queue();
  const Tensor there = sent(device::kZero, &queue);
  EXPECT_EQ(there.queue, queue);
  EXPECT_FALSE(there.event.native() == nullptr);
  const Tensor back = transfer(there, Device{}, {}, &queue, drivers_, counted());
  EXPECT_EQ(waited_, 0);
  wait_for(back, drivers_, counted());
  EXPECT_EQ(waited_, 1);
  EXPECT_EQ(values(back), numbers());
  EXPECT_THROW(transfer(source(), device::kOne, {}, &queue, drivers_), InvalidArgumentError);
  EXPECT_THROW(transfer(source(), Device{}, {}, &queue, drivers_), InvalidArgumentError);
}

TEST_F(TransferTest, IntoMemoryOnTheQueueThatItIsOn) {
  const Queue queue = drivers_.context(device::kZero)->make_queue();
  const Tensor target = sent(device::kZero, &queue);
  numbers_[0] = 100;
  waited_ = 0;
  const Tensor filled = transfer_into(target, source(), nullptr, drivers_, counted());
  EXPECT_EQ(filled.data, target.data);
  EXPECT_EQ(filled.queue, queue);
  EXPECT_TRUE(drivers_.context(device::kZero)->query(filled.event));
  EXPECT_EQ(waited_, 1);
  EXPECT_EQ(values(filled), numbers());
  std::vector<double> room(24);
  const Tensor here = made_tensor("float64", {4, 6}, {48, 8}, room.data());
  const Tensor returned = transfer_into(here, filled, nullptr, drivers_, counted());
  EXPECT_EQ(returned.queue, std::nullopt) << "memory of the host is on no queue";
  EXPECT_EQ(room, numbers());
}

TEST_F(TransferTest, WhoGivesUpWaitingForTheHostsMemoryHasItDone) {
  const Tensor there = sent(device::kZero);
  std::vector<double> room(24);
  const Tensor here = made_tensor("float64", {4, 6}, {48, 8}, room.data());
  slow(20ms);
  const WaitFunction gives_up = [](const std::shared_ptr<device::Context>&, const device::Event&) {
    throw std::runtime_error("no longer");
  };
  EXPECT_THROW(transfer_into(here, there, nullptr, drivers_, gives_up), std::runtime_error);
  EXPECT_EQ(room, numbers());
  EXPECT_THROW(transfer(there, Device{}, {}, nullptr, drivers_, gives_up), std::runtime_error);
  EXPECT_EQ(values(there), numbers()) << "its memory was the queue's, and goes with it";
}

TEST_F(TransferTest, UnorderedTensorsKeepWhatTheirQueueDoes) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> gone = held;
  Tensor tensor = source();
  tensor.queue = Queue(device::kZero, device::NativeQueue(queue_.native()), std::move(held));
  tensor = without_event(std::move(tensor));
  EXPECT_EQ(tensor.queue, std::nullopt);
  EXPECT_FALSE(gone.expired());
  tensor = {};
  EXPECT_TRUE(gone.expired());
}

}  // namespace
}  // namespace crossdock::exchange
