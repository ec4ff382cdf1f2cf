#include "core/amounts.h"

#include <gtest/gtest.h>

#include <chrono>

namespace crossdock {
namespace {

using std::chrono::milliseconds;

TEST(Amounts, HaveTheSingularForOneAlone) {
  EXPECT_EQ(counted(0, "null"), "0 nulls");
  EXPECT_EQ(counted(1, "null"), "1 null");
  EXPECT_EQ(counted(2, "null"), "2 nulls");
  EXPECT_EQ(counted(1, "row is null", "rows are null"), "1 row is null");
  EXPECT_EQ(counted(2, "row is null", "rows are null"), "2 rows are null");
}

TEST(Amounts, OfTimeAreSeconds) {
  EXPECT_EQ(in_seconds(milliseconds(0)), "0 s");
  EXPECT_EQ(in_seconds(milliseconds(1)), "0.001 s");
  EXPECT_EQ(in_seconds(milliseconds(50)), "0.05 s");
  EXPECT_EQ(in_seconds(milliseconds(500)), "0.5 s");
  EXPECT_EQ(in_seconds(milliseconds(10'000)), "10 s");
  EXPECT_EQ(in_seconds(milliseconds(100'250)), "100.25 s");
  EXPECT_EQ(in_seconds(milliseconds(2'147'483'647)), "2147483.647 s");
}

}  // namespace
}  // namespace crossdock
