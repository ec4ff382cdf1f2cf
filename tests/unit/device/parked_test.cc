#include "parked.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace crossdock::device {
namespace {

/// Events told apart by their native handle; those in `over_` are.
class ParkedTest : public ::testing::Test {
 protected:
  Event event(int number) { return {reinterpret_cast<void*>(std::uintptr_t(number)), nullptr}; }
  std::shared_ptr<void> owner(int number) {
    return {this, [this, number](void*) { dropped_.push_back(number); }};
  }
  std::unique_ptr<Parked> make() {
    return std::make_unique<Parked>(Parked::Watch{
        .over = [this](const Event& event) { return over_.contains(event.native()); },
        .wait = [this](const Event& event) { waited_.push_back(event.native()); },
        .in_child = [this] { return in_child_; },
    });
  }
  void end(int number) { over_.insert(event(number).native()); }

  std::set<void*> over_;
  std::vector<void*> waited_;
  std::vector<int> dropped_;
  bool in_child_ = false;
};

TEST_F(ParkedTest, DropsWhatIsOverAndKeepsTheRest) {
  const auto parked = make();
  for (int i = 1; i <= 5; ++i) parked->park(owner(i), event(i));
  parked->sweep();
  EXPECT_TRUE(dropped_.empty());
  for (const int i : {1, 3, 5}) end(i);
  parked->sweep();
  EXPECT_EQ(dropped_, (std::vector<int>{1, 3, 5}));
  parked->park(owner(6), event(6));
  for (const int i : {2, 4, 6}) end(i);
  parked->sweep();
  EXPECT_EQ(dropped_, (std::vector<int>{1, 3, 5, 2, 4, 6}));
  EXPECT_TRUE(waited_.empty());
}

TEST_F(ParkedTest, WaitsAtItsEndForWhatIsLeft) {
  auto parked = make();
  for (int i = 1; i <= 3; ++i) parked->park(owner(i), event(i));
  end(2);
  parked->sweep();
  parked.reset();
  EXPECT_EQ(waited_.size(), 2u);
  EXPECT_EQ(dropped_.size(), 3u);
}

TEST_F(ParkedTest, WaitsForNothingInAForkedChild) {
  auto parked = make();
  parked->park(owner(1), event(1));
  in_child_ = true;
  parked.reset();
  EXPECT_TRUE(waited_.empty());
}

TEST_F(ParkedTest, ManyAreDroppedWithoutRecursion) {
  auto parked = make();
  for (int i = 1; i <= 200'000; ++i) parked->park(owner(i), event(i));
  parked.reset();
  EXPECT_EQ(dropped_.size(), 200'000u);
}

TEST_F(ParkedTest, ADeleterMayParkAndSweep) {
  const auto parked = make();
  parked->park(std::shared_ptr<void>(this,
                                     [&](void*) {
                                       parked->park(owner(2), event(2));
                                       parked->sweep();
                                     }),
               event(1));
  end(1);
  end(2);
  parked->sweep();
  EXPECT_EQ(dropped_, std::vector<int>{2});
}

}  // namespace
}  // namespace crossdock::device
