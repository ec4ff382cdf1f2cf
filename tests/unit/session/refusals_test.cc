// Refused callers in the log.

#include "session/flight/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "support/log_lines.h"

namespace crossdock::session {
namespace {

TEST(RefusalsTest, AreFewInTheLogAndCounted) {
  testing::LogLines log;
  const LogCallback callback = log.callback();
  Refusals refusals(callback);
  const auto start = Refusals::Clock::now();
  for (int i = 0; i < 1000; ++i) refusals.log("10.0.0.7:1", std::runtime_error("the token is wrong"), start);
  EXPECT_EQ(log.count("a Flight client at 10.0.0.7:1 was refused: the token is wrong"), 20);
  refusals.log("10.0.0.7:1", std::runtime_error("the token is wrong"), start + Refusals::kTime);
  EXPECT_EQ(log.count("; and 980 more before"), 1);
  refusals.log("10.0.0.7:1", std::runtime_error("the token is wrong"), start + 2 * Refusals::kTime);
  EXPECT_EQ(log.count("more before"), 1);
}

}  // namespace
}  // namespace crossdock::session
