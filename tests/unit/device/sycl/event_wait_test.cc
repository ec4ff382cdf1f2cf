#include "device/sycl/event_wait.h"

#include <gtest/gtest.h>

namespace crossdock::device::sycl {
namespace {

constexpr int kSubmitted = 1;  // of DPCTLSyclEventStatusType

/// A run time with one event, of which a number of waits return too early; it can't be made to do so reliably.
struct FakeEvent {
  int early = 0;
  int after = kStatusComplete;
  int waits = 0;
};

FakeEvent* of(EventRef event) { return reinterpret_cast<FakeEvent*>(event); }

int wait_for(FakeEvent& event) {
  Api api;
  api.event_wait = [](EventRef waited) { ++of(waited)->waits; };
  api.event_status = [](EventRef asked) { return of(asked)->waits > of(asked)->early ? of(asked)->after : kSubmitted; };
  return wait_until_over(api, reinterpret_cast<EventRef>(&event));
}

TEST(EventWait, WaitsOnceForWhatIsOverThen) {
  FakeEvent event;
  EXPECT_EQ(wait_for(event), kStatusComplete);
  EXPECT_EQ(event.waits, 1);
}

TEST(EventWait, WaitsAgainWhereAWaitReturnedTooEarly) {
  FakeEvent event{.early = 1};
  EXPECT_EQ(wait_for(event), kStatusComplete);
  EXPECT_EQ(event.waits, 2);
}

TEST(EventWait, AsksNoMoreOfAnEventThatFailed) {
  FakeEvent event{.after = kStatusUnknown};
  EXPECT_EQ(wait_for(event), kStatusUnknown);
  EXPECT_EQ(event.waits, 1);
}

TEST(EventWait, EndsWhereNoWaitHelps) {
  FakeEvent event{.early = 1'000'000};
  EXPECT_EQ(wait_for(event), kSubmitted);
  EXPECT_LT(event.waits, 1'000);
}

}  // namespace
}  // namespace crossdock::device::sycl
