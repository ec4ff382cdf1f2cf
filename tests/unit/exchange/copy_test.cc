#include "crossdock/exchange/copy.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "crossdock/device/registry.h"
#include "crossdock/exchange/sync.h"
#include "support/message_of.h"
#include "unit/device/sim/support.h"
#include "unit/exchange/support.h"

namespace crossdock::exchange {
namespace {

using namespace std::chrono_literals;
using array::Tensor;
using crossdock::testing::counting_owner;
using crossdock::testing::made_tensor;
using crossdock::testing::message_of;
using device::Device;
using device::MemoryKind;
using device::Queue;
using device::SimVerb;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CopyTest : public device::SimTest {
 protected:
  CopyTest() { std::iota(numbers_.begin(), numbers_.end(), 0.0); }
  void TearDown() override {
    EXPECT_THAT(driver_->faults(), IsEmpty());
    finish_all();
    driver_->forget_faults();
    EXPECT_EQ(live_after_frees(kept_for_good_), kept_for_good_);
  }

  /// 4 by 6 numbers, 0 to 23, in host memory that outlives the test's work.
  Tensor source() { return made_tensor("float64", {4, 6}, {48, 8}, numbers_.data()); }
  Tensor strided(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, std::size_t first) {
    return made_tensor("float64", std::move(shape), std::move(strides), numbers_.data() + first);
  }
  Tensor sent(const Tensor& from) { return sent(from, queue_); }
  Tensor sent(const Tensor& from, const Queue& queue) {
    return copy(from, {context_, MemoryKind::kDevice, context_, queue});
  }
  /// A view of `whole`, which was sent, with these extents and its first element there.
  static Tensor view(const Tensor& whole, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                     std::int64_t first) {
    Tensor part = whole;
    part.extents = made_tensor("float64", std::move(shape), std::move(strides), nullptr).extents;
    part.data = static_cast<double*>(whole.data) + first;
    return part;
  }
  Tensor fetched(const Tensor& from) { return fetched(from, queue_); }
  Tensor fetched(const Tensor& from, const Queue& queue) {
    return copy(from, {host_, MemoryKind::kHost, context_, queue});
  }
  /// In C order; waits.
  std::vector<double> values(Tensor tensor) {
    if (tensor.device.type != device::DeviceType::kCpu) tensor = fetched(tensor);
    wait_ready(&tensor, *context_);
    return values_now(tensor);
  }
  static std::vector<double> values_now(const Tensor& tensor) {
    std::vector<double> out(static_cast<std::size_t>(tensor.size()));
    if (tensor.data != nullptr) pack(tensor, out.data());
    return out;
  }
  /// What a producer does who goes on with a tensor of source()'s extents on his own queue.
  void overwrite(const Tensor& tensor, const Queue& queue) {
    context_->copy({.data = tensor.data, .size = 192, .device = tensor.device, .kind = tensor.kind, .read_only = false},
                   host(zeros_).as_read_only(), queue);
  }
  /// Allocations that are alive once those are gone that a queue's thread frees after its work: it may be a moment
  /// behind the events that say that the work is done.
  std::uint64_t live_after_frees(std::uint64_t expected) {
    for (int i = 0; i < 2000 && driver_->counters().live_allocations != expected; ++i) {
      std::this_thread::sleep_for(1ms);
      finish_all();
    }
    return driver_->counters().live_allocations;
  }
  void finish_all() {
    finish(queue_);
    finish(other_);
  }
  std::uint64_t calls(SimVerb verb) const { return driver_->counters().of(verb); }

  std::shared_ptr<device::Context> host_ = device::make_default_registry()->context(Device{});
  std::uint64_t kept_for_good_ = 0;
  std::string zeros_ = std::string(192, '\0');
  std::vector<double> numbers_ = std::vector<double>(4000);
};

TEST_F(CopyTest, ThereAndBack) {
  const Tensor there = sent(source());
  EXPECT_EQ(there.device, device::kZero);
  EXPECT_EQ(there.kind, MemoryKind::kDevice);
  EXPECT_FALSE(there.read_only);
  EXPECT_THAT(there.strides(), ElementsAre(48, 8));
  ASSERT_TRUE(there.queue);
  EXPECT_EQ(there.queue->native(), queue_.native());
  EXPECT_NE(there.event.native(), nullptr);
  EXPECT_EQ(values(there), values_now(source()));
}

TEST_F(CopyTest, IntoMemoryThatIsThere) {
  slow(3ms);
  const Tensor target = sent(source());
  const std::uint64_t allocated = calls(SimVerb::kAllocate);
  Tensor other = made_tensor("float64", {4, 6}, {48, 8}, numbers_.data() + 100);
  const Tensor filled = copy_into(target, other, {context_, device::MemoryKind::kDevice, context_, other_});
  EXPECT_EQ(filled.data, target.data);
  EXPECT_EQ(filled.queue, other_);
  EXPECT_EQ(calls(SimVerb::kAllocate), allocated);
  overwrite(target, queue_);  // its own queue comes after the copy
  EXPECT_EQ(failure_of(queue_), "");
  const Tensor again = copy_into(filled, other, {context_, device::MemoryKind::kDevice, context_, queue_});
  EXPECT_EQ(values(again), values_now(other));
}

TEST_F(CopyTest, IntoMemoryThatIsThereWithGapsInTheSource) {
  const Tensor target = sent(source());
  const Tensor columns = strided({4, 6}, {16, 64}, 0);
  EXPECT_EQ(values(copy_into(target, columns, {context_, device::MemoryKind::kDevice, context_, queue_})),
            values_now(columns));
  const Tensor there = sent(made_tensor("float64", {40, 40}, {320, 8}, numbers_.data()));
  const Tensor part = view(there, {4, 6}, {16, 320}, 3);
  EXPECT_EQ(values(copy_into(target, part, {context_, device::MemoryKind::kDevice, context_, queue_})),
            values_now(strided({4, 6}, {16, 320}, 3)));
  std::vector<double> room(24);
  const Tensor host = made_tensor("float64", {4, 6}, {48, 8}, room.data());
  const Tensor back = copy_into(host, part, {context_, device::MemoryKind::kDevice, context_, queue_});
  context_->wait(back.event);
  EXPECT_EQ(room, values_now(strided({4, 6}, {16, 320}, 3)));
  copy_into(host, columns, {host_, device::MemoryKind::kDevice, host_, host_->make_queue()});
  EXPECT_EQ(room, values_now(columns));
}

TEST_F(CopyTest, IntoMemoryThatDoesntFit) {
  const Tensor target = sent(source());
  Tensor read_only = target;
  read_only.read_only = true;
  Tensor masked = source();
  masked.mask = std::make_shared<const Tensor>(source());
  const Tensor flat = made_tensor("float64", {24}, {8}, numbers_.data());
  const Tensor ints = made_tensor("int64", {4, 6}, {48, 8}, numbers_.data());
  const auto into = [&](const Tensor& to, const Tensor& from) {
    return copy_into(to, from, {context_, device::MemoryKind::kDevice, context_, queue_});
  };
  EXPECT_THROW(into(read_only, source()), InvalidArgumentError);
  EXPECT_THROW(into(target, flat), InvalidArgumentError);
  EXPECT_THROW(into(target, ints), InvalidArgumentError);
  EXPECT_THROW(into(target, masked), UnsupportedError);
  EXPECT_THROW(into(view(target, {2, 3}, {96, 8}, 0), view(target, {2, 3}, {48, 8}, 0)), UnsupportedError);
  const Tensor shifted = made_tensor("float64", {4, 6}, {48, 8}, numbers_.data() + 3);
  EXPECT_THROW(copy_into(source(), shifted, {host_, device::MemoryKind::kDevice, host_, host_->make_queue()}),
               InvalidArgumentError);
  EXPECT_THROW(into(target, view(target, {4, 6}, {-48, -8}, 23)), InvalidArgumentError);
  EXPECT_THROW(into(view(target, {2, 6}, {48, 8}, 0), view(target, {2, 6}, {48, 8}, 6)), InvalidArgumentError);
  finish(queue_);
}

TEST_F(CopyTest, AFailureOnTheWayIntoMemoryIsWaitedFor) {
  const Tensor target = sent(source());
  finish(queue_);
  slow(3ms);
  driver_->fail_next(SimVerb::kRecord, 0, Error(ErrorCode::kResource, "no more"));
  const std::uint64_t waited = calls(SimVerb::kWait);
  EXPECT_THROW(copy_into(target, source(), {context_, device::MemoryKind::kDevice, context_, queue_}), ResourceError);
  EXPECT_GT(calls(SimVerb::kWait), waited) << "what was started goes on behind its owners' backs";
  EXPECT_EQ(values(copy_into(target, source(), {context_, device::MemoryKind::kDevice, context_, queue_})),
            values_now(source()));
}

TEST_F(CopyTest, ArraysWithoutElementsAreOnTheQueue) {
  Tensor nothing = made_tensor("float64", {0, 6}, {48, 8}, nullptr);
  EXPECT_EQ(sent(nothing).queue, queue_);
  const std::int64_t shape[] = {3, 0};
  EXPECT_EQ(empty(nothing.type, shape, context_, MemoryKind::kDevice, queue_).queue, queue_);
  EXPECT_EQ(empty(nothing.type, shape, host_, MemoryKind::kHost, host_->make_queue()).queue, std::nullopt);
}

TEST_F(CopyTest, BetweenDevices) {
  const auto second = driver_->open(device::kOne);
  const Queue queue = second->make_queue();
  slow(3ms);
  {
    const Tensor across = copy(sent(source()), {second, MemoryKind::kDevice, second, queue, context_});
    EXPECT_EQ(across.device, device::kOne);
    Tensor back = copy(across, {host_, MemoryKind::kHost, second, queue});
    wait_ready(&back, *second);
    EXPECT_EQ(values_now(back), values_now(source()));
  }
  device::Event end = second->record(queue);
  second->wait(end);
}

TEST_F(CopyTest, TheSourcesQueueOnAnotherDeviceIsOrderedAfterTheCopy) {
  const auto second = driver_->open(device::kOne);
  const Queue queue = second->make_queue();
  const Tensor there = sent(source());
  slow(3ms);
  Tensor across = copy(there, {second, MemoryKind::kDevice, second, queue, context_});
  overwrite(there, queue_);
  wait_ready(&across, *second);
  EXPECT_EQ(failure_of(queue_), "");
}

TEST_F(CopyTest, OnTheHostIsDoneAtOnce) {
  const std::uint64_t before = driver_->counters().total();
  const Tensor made = copy(strided({6, 4}, {8, 48}, 0), {host_, MemoryKind::kHost, host_, host_->make_queue()});
  EXPECT_TRUE(made.ready());
  EXPECT_FALSE(made.queue);
  EXPECT_THAT(made.strides(), ElementsAre(32, 8));
  EXPECT_EQ(values_now(made), values_now(strided({6, 4}, {8, 48}, 0)));
  EXPECT_EQ(driver_->counters().total(), before);
}

TEST_F(CopyTest, IntoEachKindOfMemory) {
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kHost, MemoryKind::kShared}) {
    const Tensor made = copy(source(), {context_, kind, context_, queue_});
    EXPECT_EQ(made.kind, kind);
    EXPECT_EQ(values(made), values_now(source()));
  }
}

TEST_F(CopyTest, ReadOnlyAndCopiedStayBehind) {
  Tensor from = source();
  from.read_only = true;
  const Tensor there = sent(from);
  EXPECT_FALSE(there.read_only);
}

TEST_F(CopyTest, StridesOfTheHostArePacked) {
  const struct {
    std::vector<std::int64_t> shape, strides;
    std::size_t first;
  } cases[] = {{{6, 4}, {8, 48}, 0}, {{4, 6}, {-48, 8}, 18}, {{4, 3}, {48, -16}, 5},       {{5}, {800}, 0},
               {{5}, {-800}, 3000},  {{3, 4}, {0, 8}, 7},    {{2, 1, 3}, {480, 999, 8}, 1}};
  for (const auto& one : cases) {
    const Tensor from = strided(one.shape, one.strides, one.first);
    const std::uint64_t copies = calls(SimVerb::kCopy);
    const Tensor there = sent(from);
    EXPECT_EQ(calls(SimVerb::kCopy) - copies, 1u);
    EXPECT_TRUE(there.c_contiguous());
    EXPECT_EQ(values(there), values_now(from)) << array::shape_text(from.strides());
  }
}

TEST_F(CopyTest, GapsOfADeviceAreLeftOut) {
  const Tensor whole = sent(source());
  const struct {
    std::vector<std::int64_t> shape, strides;
    std::int64_t first;
    std::uint64_t runs;
  } cases[] = {{{6, 4}, {8, 48}, 0, 24},  {{4, 6}, {-48, 8}, 18, 4}, {{4, 6}, {-48, -8}, 23, 24},
               {{4, 3}, {48, 16}, 1, 12}, {{3, 6}, {0, 8}, 6, 3},    {{24}, {-8}, 23, 24}};
  for (const auto& one : cases) {
    const Tensor from = view(whole, one.shape, one.strides, one.first);
    const std::uint64_t copies = calls(SimVerb::kCopy);
    const Tensor made = copy(from, {context_, MemoryKind::kDevice, context_, queue_});
    EXPECT_EQ(calls(SimVerb::kCopy) - copies, one.runs) << array::shape_text(one.strides);
    EXPECT_TRUE(made.c_contiguous());
    EXPECT_EQ(values(made), values_now(strided(one.shape, one.strides, static_cast<std::size_t>(one.first))));
  }
}

TEST_F(CopyTest, TooManyRunsGoByWayOfTheHost) {
  std::vector<double> many(4000);
  std::iota(many.begin(), many.end(), 0);
  const Tensor whole = sent(made_tensor("float64", {4000}, {8}, many.data()));
  const Tensor from = view(whole, {2000}, {-16}, 3999);
  const std::uint64_t copies = calls(SimVerb::kCopy);
  const Tensor made = copy(from, {context_, MemoryKind::kDevice, context_, queue_});
  EXPECT_EQ(calls(SimVerb::kCopy) - copies, 2u) << "there in one piece, and back packed";
  EXPECT_TRUE(made.c_contiguous());
  EXPECT_EQ(made.device, from.device);
  const std::vector<double> got = values(made);
  ASSERT_EQ(got.size(), 2000u);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 3999 - 2.0 * static_cast<double>(i));
  const Tensor host = fetched(from);
  EXPECT_TRUE(host.ready());
  EXPECT_TRUE(host.c_contiguous());
  EXPECT_EQ(*static_cast<const double*>(host.data), 3999);
}

TEST_F(CopyTest, RunsAreAsLongAsTheyCanBe) {
  const Tensor whole = sent(made_tensor("float64", {40, 100}, {800, 8}, numbers_.data()));
  const struct {
    std::vector<std::int64_t> shape, strides;
    std::int64_t first;
    std::uint64_t runs;
  } cases[] = {{{2, 5}, {16000, 8}, 0, 2},
               {{2, 5}, {-16000, 8}, 3000, 2},
               {{3, 2}, {800, -400}, 60, 6},
               {{2, 1, 5}, {8000, 7, 8}, 10, 2},
               {{4, 2, 50}, {8000, 400, 8}, 0, 4}};
  for (const auto& one : cases) {
    const Tensor from = view(whole, one.shape, one.strides, one.first);
    const auto before = driver_->counters();
    const Tensor made = copy(from, {context_, MemoryKind::kDevice, context_, queue_});
    const auto after = driver_->counters();
    EXPECT_EQ(after.of(SimVerb::kCopy) - before.of(SimVerb::kCopy), one.runs) << array::shape_text(one.strides);
    EXPECT_EQ(after.bytes_copied - before.bytes_copied, static_cast<std::uint64_t>(made.nbytes()));
    EXPECT_TRUE(made.c_contiguous());
    EXPECT_EQ(values(made), values_now(strided(one.shape, one.strides, static_cast<std::size_t>(one.first))));
  }
}

TEST_F(CopyTest, OfNothingAsksTheDriverForNothing) {
  const std::uint64_t before = driver_->counters().total();
  const Tensor there = sent(made_tensor("float64", {3, 0, 2}, {0, 16, 8}, nullptr));
  EXPECT_EQ(there.device, device::kZero);
  EXPECT_EQ(there.data, nullptr);
  EXPECT_THAT(there.shape(), ElementsAre(3, 0, 2));
  EXPECT_EQ(there.event.native(), nullptr);
  const Tensor back = fetched(there);
  EXPECT_EQ(back.device, Device{});
  EXPECT_EQ(back.data, nullptr);
  EXPECT_EQ(driver_->counters().total(), before);
}

TEST_F(CopyTest, OfOneElementWithoutDimensions) {
  EXPECT_THAT(values(sent(made_tensor("float64", {}, {}, &numbers_[7]))), ElementsAre(7.0));
}

TEST_F(CopyTest, TheMaskGoesAlong) {
  std::uint8_t valid[24] = {};
  for (int i = 0; i < 24; i += 3) valid[i] = 1;
  Tensor from = source();
  from.mask = std::make_shared<const Tensor>(made_tensor("bool", {4, 6}, {6, 1}, valid));
  const Tensor there = sent(from);
  ASSERT_NE(there.mask, nullptr);
  EXPECT_EQ(there.mask->device, device::kZero);
  const Tensor back = fetched(there);
  ASSERT_NE(back.mask, nullptr);
  Tensor mask = *back.mask;
  wait_ready(&mask, *context_);
  EXPECT_EQ(std::memcmp(mask.data, valid, sizeof valid), 0);
  EXPECT_EQ(from.mask->data, valid);
}

TEST_F(CopyTest, HandlesCantBeCopied) {
  Tensor from = source();
  from.device = {device::DeviceType::kOpenCl, 0};
  EXPECT_THAT(message_of<UnsupportedError>([&] { sent(from); }), HasSubstr("opencl:0"));
}

// Cost

TEST_F(CopyTest, CallsDontDependOnTheSize) {
  const auto counted = [&](const Tensor& from) {
    const Tensor there = sent(from);
    finish(queue_);
    driver_->reset();
    const Tensor back = fetched(there);
    const auto counters = driver_->counters();
    finish(queue_);
    return counters.calls;
  };
  const auto few = counted(strided({2}, {8}, 0));
  EXPECT_EQ(few, counted(strided({2, 2, 1000}, {16000, 8000, 8}, 0)));
  EXPECT_EQ(few[static_cast<std::size_t>(SimVerb::kCopy)], 1u);
  EXPECT_EQ(few[static_cast<std::size_t>(SimVerb::kWait)], 0u);
}

// Order

TEST_F(CopyTest, WaitsForNothing) {
  slow(50ms);
  const Tensor there = sent(source());
  EXPECT_FALSE(context_->query(there.event));
  const Tensor back = fetched(there, other_);
  EXPECT_FALSE(context_->query(there.event));
  EXPECT_FALSE(context_->query(back.event));
  EXPECT_EQ(calls(SimVerb::kWait), 0u);
  EXPECT_EQ(values(back), values_now(source()));
  EXPECT_TRUE(context_->query(there.event));
}

TEST_F(CopyTest, TheQueueIsOrderedAfterTheSourcesEvent) {
  slow(3ms);
  const Tensor there = sent(source(), queue_);
  EXPECT_EQ(values(fetched(there, other_)), values_now(source()));
  Tensor forgotten = sent(source(), queue_);
  forgotten.event = {};
  forgotten.queue.reset();
  Tensor racy = fetched(forgotten, other_);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { wait_ready(&racy, *context_); }),
              HasSubstr("reads memory that queue 1"));
  driver_->forget_faults();
}

TEST_F(CopyTest, TheSourcesQueueIsOrderedAfterTheCopy) {
  slow(3ms);
  const Tensor there = sent(source(), queue_);
  const Tensor again = sent(there, other_);
  overwrite(there, queue_);
  finish(queue_);
  EXPECT_EQ(values(again), values_now(source()));
  Tensor stale = there;
  stale.event = {};
  EXPECT_THAT(values(stale), Each(0.0));
}

TEST_F(CopyTest, OneQueueIsntOrderedAfterItself) {
  const Tensor there = sent(source(), queue_);
  const std::uint64_t before = calls(SimVerb::kOrderAfter);
  const Tensor back = fetched(there, queue_);
  EXPECT_EQ(calls(SimVerb::kOrderAfter), before);
}

TEST_F(CopyTest, AStridedHostSourceThatIsntReadyIsntReadNow) {
  slow(5ms);
  const Tensor there = sent(source());
  const Tensor back = fetched(there);
  const Tensor columns = array::transpose(back, std::vector<std::int32_t>{1, 0});
  EXPECT_EQ(values(sent(columns)), values_now(strided({6, 4}, {8, 48}, 0)));
}

TEST_F(CopyTest, ManyRunsOfOneDeviceComeToAnother) {
  const auto second = driver_->open(device::kOne);
  const Queue queue = second->make_queue();
  const Tensor whole = made_tensor("float64", {2000, 2}, {16, 8}, numbers_.data());
  const Tensor there = view(sent(whole), {2000}, {16}, 0);
  slow(1ms);
  Tensor across = copy(there, {second, MemoryKind::kDevice, second, queue, context_});
  EXPECT_EQ(across.device, device::kOne);
  Tensor back = copy(across, {host_, MemoryKind::kHost, second, queue});
  wait_ready(&back, *second);
  EXPECT_EQ(values_now(back), values_now(strided({2000}, {16}, 0)));
  device::Event end = second->record(queue);
  across = Tensor();
  second->wait(end);
}

// Lifetimes

TEST_F(CopyTest, TheSourceIsKeptUntilTheCopyIsDone) {
  int released = 0;
  slow(50ms);
  Tensor there;
  {
    Tensor from = source();
    from.owner = counting_owner(&released);
    there = sent(from);
  }
  EXPECT_EQ(released, 0);
  finish(queue_);
  context_->wait(there.event);
  // What was freed on a queue goes when the queue comes to it, which is before what is put on it later is done.
  finish(queue_);
  EXPECT_EQ(released, 1);
}

TEST_F(CopyTest, TheTargetIsGivenBackAfterTheWorkOnItsQueue) {
  slow(20ms);
  Tensor back;
  {
    const Tensor there = sent(source());
    back = fetched(there);
  }
  EXPECT_GE(driver_->counters().live_allocations, 1u) << "the queue still works on it";
  EXPECT_EQ(values(back), values_now(source()));
  finish(queue_);
  EXPECT_EQ(live_after_frees(0), 0u);
}

TEST_F(CopyTest, MemoryThatTheDriverWontFreeIsntGivenBackUnderTheWorkOnIt) {
  slow(20ms);
  Tensor there = sent(source());
  driver_->fail_next(SimVerb::kFree, 0, ResourceError("not now"));
  there = Tensor();
  EXPECT_THAT(driver_->faults(), IsEmpty()) << "it was waited for";
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_EQ(live_after_frees(0), 0u);
}

TEST_F(CopyTest, MemoryThatCantEvenBeWaitedForIsKeptForGood) {
  slow(20ms);
  Tensor there = sent(source());
  driver_->fail_next(SimVerb::kFree, 0, ResourceError("not now"));
  driver_->fail_next(SimVerb::kRecord, 0, ResourceError("nor that"));
  {
    const crossdock::testing::LeakIsMeant meant;
    there = Tensor();
  }
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_EQ(live_after_frees(1), 1u);
  kept_for_good_ = 1;
}

TEST_F(CopyTest, ATargetThatNobodyWantedIsntFreedUnderTheCopy) {
  slow(10ms);
  sent(source());
  fetched(sent(source()), other_);
  EXPECT_NO_THROW(finish_all());
}

TEST_F(CopyTest, ViewsKeepTheMemory) {
  Tensor there = sent(source());
  const Tensor row = array::slice(there, std::vector<array::Slice>{{.start = 2, .step = 1, .count = 1, .keep = false}});
  there = Tensor();
  finish(queue_);
  EXPECT_EQ(live_after_frees(1), 1u);
  EXPECT_THAT(values(row), ElementsAre(12, 13, 14, 15, 16, 17));
}

// New memory

TEST_F(CopyTest, EmptyGivesMemoryForTheQueuesWork) {
  slow(5ms);
  const std::int64_t shape[] = {4, 6};
  {
    const Tensor made = empty(array::parse_element_type("float64"), shape, context_, MemoryKind::kDevice, queue_);
    EXPECT_THAT(made.strides(), ElementsAre(48, 8));
    EXPECT_EQ(made.device, device::kZero);
    ASSERT_TRUE(made.queue);
    EXPECT_EQ(made.queue->native(), queue_.native());
    upload({.data = made.data, .size = 192, .device = made.device, .kind = made.kind, .read_only = false},
           std::string(reinterpret_cast<const char*>(numbers_.data()), 192));
    EXPECT_EQ(values(made), values_now(source()));
  }
  finish(queue_);
  EXPECT_EQ(live_after_frees(0), 0u);
  const Tensor here = empty(array::parse_element_type("float64"), shape, host_, MemoryKind::kHost, host_->make_queue());
  EXPECT_EQ(here.device, Device{});
  EXPECT_FALSE(here.queue);
}

TEST_F(CopyTest, EmptyRefusesExtentsThatMakeNoSense) {
  const auto type = array::parse_element_type("float64");
  const auto made = [&](std::vector<std::int64_t> shape) {
    return empty(type, shape, context_, MemoryKind::kDevice, queue_);
  };
  EXPECT_EQ(made({3, 0}).data, nullptr);
  EXPECT_THROW(made({-1}), InvalidDataError);
  EXPECT_THROW(made({INT64_MAX}), InvalidDataError);
  EXPECT_THROW(made({std::int64_t{1} << 32, std::int64_t{1} << 32}), InvalidDataError);
  EXPECT_THROW(made(std::vector<std::int64_t>(65, 1)), InvalidArgumentError);
  EXPECT_THROW(made({std::int64_t{1} << 40}), ResourceError);
}

// Failures

/// Each call that a copy makes fails once: whatever was started then still has its memory, and nothing leaks.
class CopyFailureTest : public CopyTest, public ::testing::WithParamInterface<SimVerb> {};

TEST_P(CopyFailureTest, LeavesNoMemoryUnderWorkAndNoneBehind) {
  int released = 0;
  // A source that is copied in runs, on another queue than its own, with a mask: every verb is called, most repeatedly.
  Tensor whole = sent(made_tensor("float64", {40, 100}, {800, 8}, numbers_.data()));
  Tensor part = view(whole, {4, 5}, {8000, 8}, 0);
  std::uint8_t valid[20] = {};
  part.mask = std::make_shared<const Tensor>(sent(made_tensor("bool", {4, 5}, {5, 1}, valid)));
  // Keeps the memory, and counts.
  part.owner = std::shared_ptr<const void>(counting_owner(&released).get(),
                                           [whole, &released](const void*) mutable { ++released; });
  released = 0;
  finish(queue_);
  whole = Tensor();
  int failures = 0;
  for (std::uint64_t after = 0; after < 20; ++after) {
    slow(2ms);
    driver_->fail_next(GetParam(), after, ResourceError("no more"));
    bool failed = false;
    try {
      const Tensor made = copy(part, {context_, MemoryKind::kDevice, context_, other_});
    } catch (const ResourceError& error) {
      EXPECT_STREQ(error.what(), "no more");
      failed = true;
    }
    slow(0ms);
    const std::vector<std::string> faults = driver_->faults();
    driver_->reset();  // a failure that never came
    EXPECT_NO_THROW(finish_all()) << after;
    EXPECT_THAT(faults, IsEmpty()) << after;
    EXPECT_THAT(driver_->faults(), IsEmpty()) << after;
    // The source's and its mask's.
    EXPECT_EQ(live_after_frees(2), 2u) << after;
    EXPECT_EQ(released, 0);
    if (!failed) break;
    ++failures;
  }
  EXPECT_GE(failures, 2) << "the verb is called for the elements and for the mask";
  EXPECT_LT(failures, 20);
  part = Tensor();
  finish_all();
  EXPECT_EQ(released, 1);
}

INSTANTIATE_TEST_SUITE_P(Verbs, CopyFailureTest,
                         ::testing::Values(SimVerb::kAllocate, SimVerb::kCopy, SimVerb::kOrderAfter, SimVerb::kRecord),
                         [](const auto& verb) { return std::string(device::sim_verb_name(verb.param)); });

TEST_F(CopyTest, WorkThatFailsIsCarriedByTheEvent) {
  driver_->fail_work(0, SystemError("the kernel before it failed"));
  const Tensor there = sent(source());
  EXPECT_THAT(message_of<SystemError>([&] { context_->wait(there.event); }), HasSubstr("the kernel"));
  EXPECT_THROW(fetched(there), SystemError);
  EXPECT_THROW(there.ready(), SystemError);
  EXPECT_EQ(values(sent(source())), values_now(source())) << "the queue goes on";
}

}  // namespace
}  // namespace crossdock::exchange
