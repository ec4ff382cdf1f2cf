#include "transport/net/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"

namespace crossdock::transport::net {
namespace {

using ::testing::HasSubstr;

TEST(NetAcknowledgements, AreDueAfterManyMessages) {
  Acknowledgements acknowledgements;
  EXPECT_FALSE(acknowledgements.owed());
  for (std::uint64_t i = 1; i < Acknowledgements::kQuietMessages; ++i) EXPECT_FALSE(acknowledgements.count(8)) << i;
  EXPECT_TRUE(acknowledgements.count(8));
  EXPECT_TRUE(acknowledgements.owed());
  EXPECT_EQ(acknowledgements.taken(), Acknowledgements::kQuietMessages);
  acknowledgements.acknowledged();
  EXPECT_FALSE(acknowledgements.owed());
  EXPECT_FALSE(acknowledgements.count(8));
}

TEST(NetAcknowledgements, AreDueAfterManyBytes) {
  Acknowledgements acknowledgements;
  EXPECT_FALSE(acknowledgements.count(Acknowledgements::kQuietBytes - 1));
  EXPECT_TRUE(acknowledgements.count(1));
  acknowledgements.acknowledged();
  EXPECT_FALSE(acknowledgements.count(Acknowledgements::kQuietBytes - 1));
}

TEST(NetAcknowledgements, AreDueAfterAQuarterOfTheWindow) {
  Acknowledgements acknowledgements;
  EXPECT_FALSE(acknowledgements.set_window(8, "the peer"));
  EXPECT_FALSE(acknowledgements.count(1));
  EXPECT_TRUE(acknowledgements.count(1));
  EXPECT_TRUE(acknowledgements.set_window(4, "the peer")) << "2 messages are more than a quarter of this window";
  acknowledgements.acknowledged();
  for (const std::uint64_t small : {3, 2, 1}) {
    EXPECT_FALSE(acknowledgements.set_window(small, "the peer"));
    EXPECT_TRUE(acknowledgements.count(1)) << small;
    acknowledgements.acknowledged();
  }
  EXPECT_FALSE(acknowledgements.set_window(1 << 20, "the peer"));
  for (std::uint64_t i = 1; i < Acknowledgements::kQuietMessages; ++i) EXPECT_FALSE(acknowledgements.count(1)) << i;
  EXPECT_TRUE(acknowledgements.count(1)) << "a large window doesn't raise the limit";
  EXPECT_THROW(acknowledgements.set_window(0, "the peer"), ProtocolError);
}

TEST(NetAcknowledgements, AreOverdueWhereNothingArrives) {
  Acknowledgements acknowledgements;
  for (int i = 0; i < 2 * Acknowledgements::kEmptyTurns; ++i)
    ASSERT_FALSE(acknowledgements.overdue()) << "none is owed";
  acknowledgements.count(1);
  for (int i = 1; i < Acknowledgements::kEmptyTurns; ++i) ASSERT_FALSE(acknowledgements.overdue()) << i;
  acknowledgements.count(1);  // begins anew
  for (int i = 1; i < Acknowledgements::kEmptyTurns; ++i) ASSERT_FALSE(acknowledgements.overdue()) << i;
  EXPECT_TRUE(acknowledgements.overdue());
  EXPECT_TRUE(acknowledgements.overdue()) << "until the peer is told";
  acknowledgements.postpone();
  EXPECT_FALSE(acknowledgements.overdue());
  acknowledgements.acknowledged();
  for (int i = 0; i < 2 * Acknowledgements::kEmptyTurns; ++i) ASSERT_FALSE(acknowledgements.overdue()) << i;
}

TEST(NetSendWindow, CountsWhatThePeerHasNotTaken) {
  SendWindow window;
  EXPECT_EQ(window.in_flight(5), 5u);
  window.taken(3, 5, "the peer");
  EXPECT_EQ(window.in_flight(5), 2u);
  EXPECT_EQ(window.taken(), 3u);
  EXPECT_TRUE(window.below(3, 5));
  EXPECT_FALSE(window.below(2, 5));
}

TEST(NetSendWindow, OpensOnceThePeerHasTakenEnough) {
  SendWindow window;
  EXPECT_FALSE(window.opened()) << "nobody waits";
  ASSERT_FALSE(window.below(2, 5));
  window.taken(3, 5, "the peer");
  EXPECT_FALSE(window.opened());
  window.forget_opened();
  window.taken(4, 5, "the peer");
  EXPECT_TRUE(window.opened());
  EXPECT_TRUE(window.below(2, 5));
  EXPECT_FALSE(window.opened()) << "nobody waits any more";
  ASSERT_FALSE(window.below(1, 5));
  window.taken(5, 5, "the peer");
  EXPECT_TRUE(window.opened());
  window.forget_opened();
  EXPECT_FALSE(window.opened());
}

TEST(NetSendWindow, APeerCannotTakeBackOrTakeMoreThanWasSent) {
  SendWindow window;
  window.taken(3, 5, "the peer");
  window.taken(3, 5, "the peer");
  for (const std::uint64_t wrong : {2, 6}) {
    try {
      window.taken(wrong, 5, "the peer");
      ADD_FAILURE() << wrong;
    } catch (const ProtocolError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the peer acknowledged " + std::to_string(wrong) + " messages (before: 3)"));
    }
  }
  EXPECT_EQ(window.taken(), 3u);
}

}  // namespace
}  // namespace crossdock::transport::net
