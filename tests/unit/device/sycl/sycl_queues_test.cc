#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "crossdock/core/error.h"
#include "device/sycl/async_error.h"
#include "support/message_of.h"
#include "support/sycl.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using crossdock::testing::Sycl;
using ::testing::HasSubstr;

class SyclQueues : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    driver_ = crossdock::testing::make_sycl_target(why_not);
    if (driver_ == nullptr) GTEST_SKIP() << why_not;
    device_ = driver_->devices().front();
    context_ = driver_->open(device_);
    sycl_ = std::make_unique<Sycl>();
  }

  std::shared_ptr<SyclDriver> driver_;
  Device device_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Sycl> sycl_;
};

TEST_F(SyclQueues, AreInOrderWhenWeMakeThem) {
  const SyclQueueInfo info = driver_->queue_info(context_->make_queue());
  EXPECT_TRUE(info.in_order);
  EXPECT_FALSE(info.profiling);
  EXPECT_FALSE(info.sub_device);
  EXPECT_TRUE(sycl_->call<bool>("DPCTLDevice_AreEq", info.native_device.get(), sycl_->device()));
}

TEST_F(SyclQueues, EqualOnesHaveOneHandle) {
  const auto native = sycl_->queue();
  const auto copy = sycl_->own(sycl_->call<void*>("DPCTLQueue_Copy", native.get()), "DPCTLQueue_Delete");
  const Queue queue = driver_->wrap_queue(NativeQueue(native.get()));
  EXPECT_EQ(driver_->wrap_queue(NativeQueue(copy.get())), queue);
  EXPECT_EQ(context_->wrap_queue(NativeQueue(copy.get()), nullptr), queue);
  EXPECT_EQ(context_->wrap_queue(NativeQueue(queue.native()), nullptr), queue);
  EXPECT_NE(driver_->wrap_queue(NativeQueue(sycl_->queue().get())), queue);
  EXPECT_EQ(queue.device(), device_);
}

TEST_F(SyclQueues, WrappedOnesAreKeptWithoutTheirOwners) {
  auto native = sycl_->queue(2);
  int dropped = 0;
  {
    const Queue queue = driver_->wrap_queue(NativeQueue(native.get()));
    const Queue owned =
        driver_->wrap_queue(NativeQueue(native.get()), std::shared_ptr<void>(&dropped, [&](void*) { ++dropped; }));
    EXPECT_EQ(owned, queue);
    native.reset();
    context_->wait(context_->record(queue));
    EXPECT_EQ(dropped, 0);
  }
  EXPECT_EQ(dropped, 1);
}

TEST_F(SyclQueues, OfOneHandleOutliveEachOther) {
  const auto native = sycl_->queue(2);
  auto first = std::make_unique<Queue>(driver_->wrap_queue(NativeQueue(native.get())));
  const Queue second = driver_->wrap_queue(NativeQueue(native.get()));
  first.reset();
  context_->wait(context_->record(second));
  EXPECT_EQ(driver_->wrap_queue(NativeQueue(native.get())), second);
}

TEST_F(SyclQueues, AreMadeAsTheyAreAskedFor) {
  for (const bool in_order : {false, true}) {
    for (const bool profiling : {false, true}) {
      const Queue queue = driver_->make_queue({.device = device_, .in_order = in_order, .profiling = profiling});
      EXPECT_EQ(driver_->queue_info(queue).in_order, in_order);
      EXPECT_EQ(driver_->queue_info(queue).profiling, profiling);
      EXPECT_TRUE(driver_->same_context(queue, context_->make_queue()));
    }
  }
  EXPECT_THROW(driver_->make_queue({.device = {.type = DeviceType::kOneApi, .id = 9}}), NotFoundError);
}

TEST_F(SyclQueues, OfSubDevicesAreTheDevices) {
  const auto parts = driver_->sub_devices(device_, 1);
  if (parts.empty()) GTEST_SKIP() << "the device can't be cut";
  const Queue queue = driver_->make_queue({.native_device = NativeDevice(parts.front().get())});
  EXPECT_EQ(queue.device(), device_);
  EXPECT_TRUE(driver_->queue_info(queue).sub_device);
  EXPECT_EQ(context_->wrap_queue(NativeQueue(queue.native()), nullptr), queue);

  // Memory there is used as any other.
  std::string text = "on a part of it";
  std::string seen(text.size(), '?');
  const BufferRef from{.data = text.data(), .size = text.size(), .device = {}, .kind = MemoryKind::kHost};
  const BufferRef to{.data = seen.data(), .size = seen.size(), .device = {}, .kind = MemoryKind::kHost};
  Buffer buffer = context_->allocate(text.size(), MemoryKind::kDevice, Sharing::kPrivate, queue);
  context_->copy(buffer.ref(), from, queue);
  context_->copy(to, buffer.ref(), queue);
  context_->wait(context_->record(queue));
  EXPECT_EQ(seen, text);
  EXPECT_EQ(context_->describe(buffer.data()).device, device_);
  EXPECT_TRUE(context_->accessible(buffer.ref(), queue));
  const Queue other = driver_->make_queue({.native_device = NativeDevice(parts.back().get())});
  EXPECT_FALSE(context_->accessible(buffer.ref(), other)) << "another part, in a context of its own";
  context_->free(std::move(buffer), queue);

  EXPECT_THROW(driver_->sub_devices(device_, 0), InvalidArgumentError);
}

TEST_F(SyclQueues, AreFoundForAContext) {
  const auto native = sycl_->context();
  const Queue queue = driver_->queue_in(NativeContext(native.get()));
  EXPECT_TRUE(driver_->queue_info(queue).in_order);
  EXPECT_TRUE(sycl_->call<bool>("DPCTLContext_AreEq", driver_->queue_info(queue).context.get(), native.get()));
  EXPECT_EQ(driver_->queue_in(NativeContext(native.get())), queue);
  EXPECT_EQ(driver_->queue_in(NativeContext(driver_->queue_info(queue).context.get())), queue);
  EXPECT_NE(driver_->queue_in(NativeContext(sycl_->context().get())), queue);
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kShared, MemoryKind::kHost}) {
    const Buffer buffer = context_->allocate(8, kind, Sharing::kPrivate, queue);
    EXPECT_EQ(driver_->queue_in(NativeContext(native.get()), buffer.data()), queue);
  }
  const Buffer elsewhere = context_->allocate(8, MemoryKind::kDevice, Sharing::kPrivate, context_->make_queue());
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { driver_->queue_in(NativeContext(native.get()), elsewhere.data()); }),
      HasSubstr("isn't bound to the given context"));
  EXPECT_THROW(driver_->queue_in(NativeContext()), InvalidArgumentError);
}

TEST_F(SyclQueues, ThatArentOursAreRefused) {
  EXPECT_THROW(driver_->wrap_queue(NativeQueue()), InvalidArgumentError);
  EXPECT_THROW(context_->wrap_queue(NativeQueue(), nullptr), InvalidArgumentError);
  int nothing = 0;
  const Queue made_up(device_, NativeQueue(&nothing), nullptr);
  EXPECT_THROW(context_->record(made_up), InvalidArgumentError);
  EXPECT_THROW(driver_->queue_info(made_up), InvalidArgumentError);
  EXPECT_THROW(driver_->same_context(context_->make_queue(), made_up), InvalidArgumentError);
  const Queue host(Device{}, NativeQueue(), nullptr);
  EXPECT_THROW(driver_->queue_info(host), InvalidArgumentError);
}

TEST_F(SyclQueues, OutOfOrderOnesKeepTheOrderOfTheVerbs) {
  const Queue queue = driver_->make_queue({.device = device_, .in_order = false});
  constexpr std::size_t kSize = 4 << 20;
  std::vector<Buffer> chain;
  for (int i = 0; i < 4; ++i) {
    chain.push_back(context_->allocate(kSize, MemoryKind::kDevice, Sharing::kPrivate, queue));
  }
  for (int round = 0; round < 20; ++round) {
    std::string out(kSize, static_cast<char>('a' + round));
    std::string in(kSize, '?');
    // Others' work that was there before comes before ours.
    const std::string stale(kSize, '!');
    const auto before = sycl_->own(sycl_->call<void*>("DPCTLQueue_Memcpy", queue.native(), chain[0].data(),
                                                      static_cast<const void*>(stale.data()), kSize),
                                   "DPCTLEvent_Delete");
    context_->copy(chain[0].ref(), {.data = out.data(), .size = kSize, .device = {}}, queue);
    for (std::size_t i = 1; i < chain.size(); ++i) context_->copy(chain[i].ref(), chain[i - 1].ref(), queue);
    // Others' work comes after ours.
    const auto theirs =
        sycl_->own(sycl_->call<void*>("DPCTLQueue_Memcpy", queue.native(), static_cast<void*>(in.data()),
                                      static_cast<const void*>(chain.back().data()), kSize),
                   "DPCTLEvent_Delete");
    context_->wait(context_->record(queue));
    ASSERT_EQ(in, out);
  }
}

TEST_F(SyclQueues, ManyThreadsFindOneHandle) {
  const auto native = sycl_->queue(2);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const Queue one = driver_->wrap_queue(NativeQueue(native.get()));
        const Queue other = driver_->wrap_queue(NativeQueue(native.get()));
        if (one != other || driver_->queue_info(one).profiling) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Events

TEST_F(SyclQueues, EventsAreSyclsOwn) {
  const Queue queue = context_->make_queue();
  const Event event = context_->record(queue);
  sycl_->call<void>("DPCTLEvent_Wait", event.native());
  EXPECT_TRUE(context_->query(event));
}

TEST_F(SyclQueues, AreOrderedAfterEventsOfOtherContexts) {
  const auto native = sycl_->context();
  const Queue producer = driver_->queue_in(NativeContext(native.get()));
  const Queue consumer = context_->make_queue();
  constexpr std::size_t kSize = 16 << 20;
  const Buffer pinned = context_->allocate(kSize, MemoryKind::kHost, Sharing::kPrivate, producer);
  std::string text(kSize, 'x');
  std::string seen(kSize, '?');
  context_->copy(pinned.ref(), {.data = text.data(), .size = kSize, .device = {}}, producer);
  context_->order_after(consumer, context_->record(producer));
  context_->copy({.data = seen.data(), .size = kSize, .device = {}}, pinned.ref(), consumer);
  context_->wait(context_->record(consumer));
  EXPECT_EQ(seen, text);
}

TEST(SyclAsyncErrors, AreKeptForTheThreadThatWaits) {
  EXPECT_EQ(sycl::take_async_error(), 0);
  sycl::note_async_error(7);
  sycl::note_async_error(8);
  std::thread([] { EXPECT_EQ(sycl::take_async_error(), 0); }).join();
  EXPECT_EQ(sycl::take_async_error(), 7);
  EXPECT_EQ(sycl::take_async_error(), 0);
  sycl::note_async_error(0);
  EXPECT_NE(sycl::take_async_error(), 0) << "an error without a code is one";
}

}  // namespace
}  // namespace crossdock::device
