#include "crossdock/device/queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace crossdock::device {
namespace {

TEST(Event, DefaultMadeIsCompleteAndCarriesNothing) {
  const Event event;
  EXPECT_EQ(event.native(), nullptr);
  EXPECT_EQ(event.failure(), nullptr);
  EXPECT_NO_THROW(event.check());
  EXPECT_THROW(Event().fail(std::make_shared<const Error>(ErrorCode::kSystem, "late")), InvalidArgumentError);
}

TEST(Event, DestroysItsNativeWithTheLastCopy) {
  int destroyed = 0;
  int native = 0;
  {
    Event event(NativeEvent(&native), std::shared_ptr<void>(&native, [&](void*) { ++destroyed; }));
    EXPECT_EQ(event.native(), &native);
    Event copy = event;
    Event moved = std::move(event);
    EXPECT_EQ(copy.native(), &native);
    moved = Event();
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(Event, CopiesShareTheFirstFailure) {
  Event event(NativeEvent(), nullptr);
  const Event copy = event;
  event.fail(std::make_shared<const TimeoutError>("the device hangs"));
  event.fail(std::make_shared<const SystemError>("a second one"));
  ASSERT_NE(copy.failure(), nullptr);
  EXPECT_STREQ(copy.failure()->what(), "the device hangs");
  EXPECT_THROW(copy.check(), TimeoutError);
}

TEST(Event, FailedHasNoNative) {
  const Event event = Event::failed(std::make_shared<const ResourceError>("no memory"));
  EXPECT_EQ(event.native(), nullptr);
  EXPECT_THROW(event.check(), ResourceError);
}

TEST(Event, NeededThrowsItsFailure) {
  int native = 0;
  EXPECT_EQ(Event().need(), nullptr);
  EXPECT_EQ(Event(NativeEvent(&native), nullptr).need(), &native);
  EXPECT_THROW(Event::failed(std::make_shared<const ResourceError>("no memory")).need(), ResourceError);
}

TEST(Event, FailsOnAnotherThread) {
  Event event(NativeEvent(), nullptr);
  std::thread device([copy = event]() mutable { copy.fail(std::make_shared<const SystemError>("x")); });
  while (event.failure() == nullptr) std::this_thread::yield();
  device.join();
  EXPECT_THROW(event.check(), SystemError);
}

}  // namespace
}  // namespace crossdock::device
