#include "flight/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace crossdock::flight {
namespace {

using ::testing::StartsWith;

TEST(FlightStatus, NamesTheError) {
  const Status status = status_of(NotFoundError("nothing is published as 'x'"));
  EXPECT_EQ(status.code, StatusCode::kNotFound);
  EXPECT_EQ(status.text, "NotFoundError: nothing is published as 'x'");
  EXPECT_EQ(status_of_text(status.text).code, StatusCode::kNotFound);
}

TEST(FlightStatus, IsNeverSuccessForAnError) {
  for (std::int32_t code = 1; code <= 26; ++code) {
    const Status status = status_of(Error(static_cast<ErrorCode>(code), "x"));
    EXPECT_NE(status.code, StatusCode::kOk) << code;
    EXPECT_THAT(status.text, StartsWith(std::string(error_name(static_cast<ErrorCode>(code)))));
  }
  EXPECT_EQ(status_of(std::runtime_error("x")).code, StatusCode::kInternal);
  EXPECT_EQ(status_of_text("of no known kind").code, StatusCode::kUnknown);
  EXPECT_EQ(status_of_text("NotFoundErrors").code, StatusCode::kUnknown);
}

TEST(FlightStatus, KnowsWhoIsNotKnownFromWhoMayNot) {
  EXPECT_EQ(status_of(UnauthenticatedError("who?")).code, StatusCode::kUnauthenticated);
  EXPECT_EQ(status_of(PermissionError("no")).code, StatusCode::kPermissionDenied);
}

TEST(FlightStatus, BoundsItsText) {
  const Status status = status_of(NotFoundError(std::string(100'000, 'x') + "\xff"));
  EXPECT_LE(status.text.size(), 4096u);
}

}  // namespace
}  // namespace crossdock::flight
