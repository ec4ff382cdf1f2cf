#include "device/internal/deferred_free_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace crossdock::device {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr Device kOne{.type = DeviceType::kExtDev, .id = 1};

/// Events told apart by their native handle; those in `over_` are.
class ParkedTest : public ::testing::Test {
 protected:
  Event event(int number) { return {NativeEvent(reinterpret_cast<void*>(std::uintptr_t(number))), nullptr}; }
  Queue queue(int number) {
    return {kOne, NativeQueue(reinterpret_cast<void*>(std::uintptr_t(100 + number))), nullptr};
  }
  std::shared_ptr<void> owner(int number) {
    return {this, [this, number](void*) { dropped_.push_back(number); }};
  }
  std::unique_ptr<DeferredFreeList> make() {
    return std::make_unique<DeferredFreeList>(DeferredFreeList::Watch{
        .over =
            [this](const Event& event) {
              ++asked_;
              if (meanwhile_) std::exchange(meanwhile_, nullptr)();
              return over_.contains(event.native());
            },
        .wait =
            [this](const Event& event) {
              waited_.push_back(event.native());
              return waits_;
            },
        .in_child = [this] { return in_child_; },
    });
  }
  void end(int number) { over_.insert(event(number).native()); }

  std::set<void*> over_;
  std::vector<void*> waited_;
  std::vector<int> dropped_;
  int asked_ = 0;
  std::function<void()> meanwhile_;  ///< Comes while the driver is asked, once.
  bool in_child_ = false;
  bool waits_ = true;  ///< The driver can wait.
};

TEST_F(ParkedTest, DropsWhatIsOverAndKeepsTheRest) {
  const auto list = make();
  for (int i = 1; i <= 5; ++i) list->add(owner(i), event(i), queue(i % 2));
  list->reclaim();
  EXPECT_TRUE(dropped_.empty());
  for (const int i : {1, 3, 4}) end(i);  // of the other queue the oldest, 2, isn't over
  list->reclaim();
  EXPECT_THAT(dropped_, UnorderedElementsAre(1, 3));
  list->add(owner(7), event(7), queue(1));
  for (const int i : {2, 5, 7}) end(i);
  list->reclaim();
  EXPECT_THAT(dropped_, UnorderedElementsAre(1, 3, 2, 4, 5, 7));
  EXPECT_TRUE(waited_.empty());
}

TEST_F(ParkedTest, AsksAboutTheOldestOfEachQueueOnly) {
  const auto list = make();
  for (int i = 0; i < 1000; ++i) list->add(owner(i), event(i + 1), queue(i % 2));
  asked_ = 0;
  list->reclaim();
  EXPECT_EQ(asked_, 2);
}

TEST_F(ParkedTest, TellsDefaultQueuesOfTwoContextsApart) {
  const auto list = make();
  const Queue other(kOne, NativeQueue(queue(1).native()), nullptr, NativeContext(this));
  list->add(owner(1), event(1), queue(1));
  list->add(owner(2), event(2), other);
  end(2);
  list->reclaim();
  EXPECT_THAT(dropped_, ElementsAre(2));
}

TEST_F(ParkedTest, WhatIsParkedWhileSomebodyLooksComesAfterTheRest) {
  const auto list = make();
  list->add(owner(1), event(1), queue(1));
  list->add(owner(2), event(2), queue(1));
  end(1);
  meanwhile_ = [&] { list->add(owner(3), event(3), queue(1)); };
  list->reclaim();
  EXPECT_THAT(dropped_, ElementsAre(1));
  end(3);
  list->reclaim();
  EXPECT_THAT(dropped_, ElementsAre(1)) << "2 comes first";
  end(2);
  list->reclaim();
  EXPECT_THAT(dropped_, UnorderedElementsAre(1, 2, 3));
}

TEST_F(ParkedTest, TwoThatLookAtOnceAskOnce) {
  const auto list = make();
  list->add(owner(1), event(1), queue(1));
  meanwhile_ = [&] {
    const int before = asked_;
    list->reclaim();
    EXPECT_EQ(asked_, before);
  };
  list->reclaim();
  EXPECT_EQ(asked_, 1);
}

TEST_F(ParkedTest, WaitsAtItsEndForWhatIsLeft) {
  auto list = make();
  for (int i = 1; i <= 3; ++i) list->add(owner(i), event(i), queue(i));
  end(2);
  list->reclaim();
  list.reset();
  EXPECT_EQ(waited_.size(), 2u);
  EXPECT_EQ(dropped_.size(), 3u);
}

TEST_F(ParkedTest, LeaksAtItsEndWhatItCannotWaitFor) {
  auto list = make();
  list->add(owner(1), event(1), queue(1));
  waits_ = false;
  list.reset();
  EXPECT_EQ(waited_.size(), 1u);
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(ParkedTest, WaitsForNothingInAForkedChild) {
  auto list = make();
  list->add(owner(1), event(1), queue(1));
  in_child_ = true;
  list.reset();
  EXPECT_TRUE(waited_.empty());
}

TEST_F(ParkedTest, ManyAreDroppedWithoutRecursion) {
  auto list = make();
  for (int i = 1; i <= 200'000; ++i) list->add(owner(i), event(i), queue(i % 3));
  list.reset();
  EXPECT_EQ(dropped_.size(), 200'000u);
}

TEST_F(ParkedTest, ADeleterMayParkAndSweep) {
  const auto list = make();
  list->add(std::shared_ptr<void>(this,
                                  [&](void*) {
                                    list->add(owner(2), event(2), queue(1));
                                    list->reclaim();
                                  }),
            event(1), queue(1));
  end(1);
  end(2);
  list->reclaim();
  EXPECT_EQ(dropped_, std::vector<int>{2});
}

}  // namespace
}  // namespace crossdock::device
