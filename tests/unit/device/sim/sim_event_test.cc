// The native event: what an Arrow consumer of somebody else's finds behind sync_event.
#include "crossdock/device/sim_event.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "support/message_of.h"
#include "unit/device/sim/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

crossdock_sim_event* native(const Event& event) { return static_cast<crossdock_sim_event*>(event.native()); }

/// An event of another library.
struct ForeignEvent : crossdock_sim_event {
  ForeignEvent()
      : crossdock_sim_event{.magic = CROSSDOCK_SIM_EVENT_MAGIC,
                            .version = 2,
                            .size = sizeof(crossdock_sim_event) + 16,
                            .query = [](crossdock_sim_event* self) { return of(self).status(); },
                            .wait = [](crossdock_sim_event* self) { return of(self).wait_for_it(); },
                            .last_error = [](crossdock_sim_event*) -> const char* { return "the other one failed"; }} {}
  static ForeignEvent& of(crossdock_sim_event* self) { return *static_cast<ForeignEvent*>(self); }
  std::int32_t status() { return failing ? -18 : (done ? 1 : 0); }
  std::int32_t wait_for_it() {
    done.wait(false);
    return failing ? -18 : 0;
  }
  void finish() {
    done = true;
    done.notify_all();
  }
  std::atomic<bool> done{false};
  bool failing = false;
};

TEST_F(SimTest, TheNativeEventSaysWhatItIs) {
  const Event event = recorded(queue_);
  ASSERT_NE(event.native(), nullptr);
  EXPECT_EQ(std::memcmp(event.native(), "xd-event", 8), 0);
  EXPECT_EQ(native(event)->version, 1u);
  EXPECT_EQ(native(event)->size, 40u);
  EXPECT_EQ(native(event)->query(native(event)), 1);
  EXPECT_EQ(native(event)->wait(native(event)), 0);
  EXPECT_EQ(native(event)->last_error(native(event)), nullptr);
}

TEST_F(SimTest, TheNativeEventIsWaitedForInC) {
  const Buffer pinned = ready(4096, MemoryKind::kHost);
  const Buffer device = ready(4096);
  slow(std::chrono::milliseconds(10));
  upload(device.ref(), std::string(4096, 'c'));
  context_->copy(pinned.ref(), device.ref(), queue_);
  const Event event = recorded(queue_);
  EXPECT_EQ(native(event)->wait(native(event)), 0);
  EXPECT_EQ(native(event)->query(native(event)), 1);
  EXPECT_EQ(*static_cast<char*>(pinned.data()), 'c') << "the host has waited, so the memory is its own again";
}

TEST_F(SimTest, TheNativeEventTellsOfAFailure) {
  const Buffer device = ready(4);
  std::string text = "text";
  driver_->fail_work(0, SystemError("broken work"));
  context_->copy(device.ref(), host(text), queue_);
  const Event event = recorded(queue_);
  EXPECT_EQ(native(event)->wait(native(event)), -18);
  EXPECT_EQ(native(event)->query(native(event)), -18);
  EXPECT_STREQ(native(event)->last_error(native(event)), "broken work");
}

TEST_F(SimTest, WrapsEventsThatLookRight) {
  alignas(8) std::byte bytes[sizeof(crossdock_sim_event) + 8]{};
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->wrap_event(NativeEvent(bytes), nullptr); }),
              HasSubstr("magic"));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->wrap_event(NativeEvent(bytes + 1), nullptr); }),
              HasSubstr("aligned"));
  ForeignEvent small;
  small.size = 32;
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { context_->wrap_event(NativeEvent(&small), nullptr); }),
              HasSubstr("32 bytes"));
  ForeignEvent lacking;
  lacking.wait = nullptr;
  EXPECT_THROW(context_->wrap_event(NativeEvent(&lacking), nullptr), InvalidArgumentError);
  EXPECT_THROW(context_->wait(Event(NativeEvent(bytes), nullptr)), InvalidArgumentError);
}

TEST_F(SimTest, OrdersAQueueAfterAnotherLibrarysEvent) {
  const Buffer buffer = ready(4);
  ForeignEvent foreign;
  const Event event = context_->wrap_event(NativeEvent(&foreign), nullptr);
  EXPECT_FALSE(context_->query(event));
  std::string text = "then";
  context_->order_after(queue_, event);
  context_->copy(buffer.ref(), host(text), queue_);
  const Event after = recorded(queue_);
  EXPECT_FALSE(context_->query(after));
  foreign.finish();
  context_->wait(after);
  EXPECT_TRUE(context_->query(event));
  EXPECT_NO_THROW(context_->wait(event));
}

TEST_F(SimTest, AnotherLibrarysFailureGoesOn) {
  ForeignEvent foreign;
  foreign.failing = true;
  foreign.finish();
  const Event event = context_->wrap_event(NativeEvent(&foreign), nullptr);
  EXPECT_THAT(message_of<SystemError>([&] { context_->wait(event); }), HasSubstr("the other one failed"));
  EXPECT_THROW(context_->query(event), SystemError);
  context_->order_after(queue_, event);
  EXPECT_THAT(failure_of(queue_), HasSubstr("the other one failed"));
  EXPECT_EQ(failure_of(queue_), "");
}

TEST_F(SimTest, AnotherLibrarysEventMayStandForOurWork) {
  const Buffer buffer = ready(4);
  std::string text = "text";
  context_->copy(buffer.ref(), host(text), queue_);
  const Event ours = recorded(queue_);
  ForeignEvent foreign;
  std::thread other([&] {
    native(ours)->wait(native(ours));
    foreign.finish();
  });
  context_->order_after(other_, context_->wrap_event(NativeEvent(&foreign), nullptr));
  context_->copy(buffer.ref(), host(text), other_);
  EXPECT_EQ(failure_of(other_), "");
  EXPECT_THAT(driver_->faults(), IsEmpty());
  other.join();
}

TEST_F(SimTest, AnotherDriversEventsAreWaitedForAsAnyones) {
  const auto elsewhere = make_sim_driver({.devices = 1});
  const auto context = elsewhere->open(kZero);
  const Queue queue = context->make_queue();
  const Buffer far = context->allocate(4, MemoryKind::kDevice, Sharing::kPrivate, queue);
  std::string text = "text";
  context->copy(far.ref(), host(text), queue);
  Event event = context->record(queue);
  context_->order_after(queue_, event);
  EXPECT_EQ(failure_of(queue_), "");
  EXPECT_THROW(context_->wrap_queue(NativeQueue(queue.native()), nullptr), InvalidArgumentError);
  EXPECT_THROW(context_->wrap_queue(NativeQueue(), nullptr), InvalidArgumentError);
  context->wait(event);
}

TEST_F(SimTest, NativeQueuesThatNobodyMadeAreRefusedUnread) {
  for (const std::uintptr_t number :
       {std::uintptr_t{1}, std::uintptr_t{2}, std::uintptr_t{8}, std::uintptr_t{1} << 40}) {
    EXPECT_THROW(context_->wrap_queue(NativeQueue(reinterpret_cast<void*>(number)), nullptr), InvalidArgumentError)
        << number;
  }
  auto ended = std::make_unique<Queue>(context_->make_queue());
  void* const native = ended->native();
  EXPECT_EQ(context_->wrap_queue(NativeQueue(native), nullptr), *ended);
  ended.reset();
  EXPECT_THROW(context_->wrap_queue(NativeQueue(native), nullptr), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::device
