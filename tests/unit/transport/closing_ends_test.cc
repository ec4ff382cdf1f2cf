#include "transport/internal/closing_ends.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace crossdock::transport {
namespace {

using Clock = ClosingEnd::Clock;

/// What a test sees of an end, and does with it.
struct Control {
  UniqueFd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  bool done = false;
  bool fails = false;
  int steps = 0;
  bool destroyed = false;
};

class FakeEnd final : public ClosingEnd {
 public:
  explicit FakeEnd(Control& control) : control_(control) {}
  ~FakeEnd() override { control_.destroyed = true; }
  FakeEnd(const FakeEnd&) = delete;
  FakeEnd& operator=(const FakeEnd&) = delete;
  bool arm() override { return true; }
  int descriptor() const noexcept override { return control_.event.get(); }

 private:
  bool step() override {
    ++control_.steps;
    if (control_.fails) throw std::runtime_error("the peer is gone");
    return control_.done;
  }
  Control& control_;
};

class ClosingEndsTest : public ::testing::Test {
 protected:
  bool add(Control& control) {
    std::unique_ptr<ClosingEnd> end = std::make_unique<FakeEnd>(control);
    return ends_.add(end);
  }
  static bool readable(int descriptor) {
    pollfd ask{descriptor, POLLIN, 0};
    return ::poll(&ask, 1, 0) > 0;
  }

  UniqueFd listening_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  AcceptPoll poll_{listening_.get(), "the test"};
  ClosingEnds ends_;
};

TEST_F(ClosingEndsTest, AreDestroyedOnceTheyAreOver) {
  Control control;
  EXPECT_FALSE(readable(ends_.descriptor()));
  ASSERT_TRUE(add(control));
  EXPECT_TRUE(readable(ends_.descriptor()));
  EXPECT_EQ(control.steps, 0) << "add() does none of their work";
  ends_.advance(poll_);
  EXPECT_FALSE(readable(ends_.descriptor()));
  EXPECT_TRUE(ends_.arm());
  ASSERT_TRUE(ends_.deadline());
  EXPECT_LE(*ends_.deadline(), Clock::now() + ClosingEnd::kLongest);
  EXPECT_FALSE(readable(poll_.descriptor()));
  ASSERT_EQ(::eventfd_write(control.event.get(), 1), 0);
  EXPECT_TRUE(readable(poll_.descriptor())) << "it is watched";
  control.done = true;
  ends_.advance(poll_);
  EXPECT_TRUE(control.destroyed);
  EXPECT_FALSE(ends_.deadline());
  EXPECT_FALSE(readable(poll_.descriptor()));
  ends_.stop(poll_);
}

TEST_F(ClosingEndsTest, AnErrorEndsThem) {
  Control control;
  ASSERT_TRUE(add(control));
  ends_.advance(poll_);
  control.fails = true;
  ends_.advance(poll_);
  EXPECT_TRUE(control.destroyed);
}

TEST_F(ClosingEndsTest, TheOldestGivesWayToANewOne) {
  std::vector<Control> controls(ClosingEnds::kMost + 1);
  for (Control& control : controls) {
    ASSERT_TRUE(add(control));
    ends_.advance(poll_);
  }
  EXPECT_TRUE(controls.front().destroyed);
  EXPECT_FALSE(controls[1].destroyed);
  for (Control& control : controls) control.done = true;
  ends_.stop(poll_);
  for (const Control& control : controls) EXPECT_TRUE(control.destroyed);
}

TEST_F(ClosingEndsTest, StopWaitsForAllUntilTheirDeadline) {
  Control early;
  Control late;
  Control added;
  ASSERT_TRUE(add(early));
  ASSERT_TRUE(add(late));
  ends_.advance(poll_);
  ASSERT_TRUE(add(added));
  early.done = true;
  const auto before = Clock::now();
  ends_.stop(poll_);
  EXPECT_TRUE(early.destroyed && late.destroyed && added.destroyed);
  EXPECT_GE(Clock::now() - before, ClosingEnd::kLongest - std::chrono::milliseconds(200));
  Control refused;
  std::unique_ptr<ClosingEnd> end = std::make_unique<FakeEnd>(refused);
  EXPECT_FALSE(ends_.add(end));
  EXPECT_NE(end, nullptr) << "the caller has it still";
}

}  // namespace
}  // namespace crossdock::transport
