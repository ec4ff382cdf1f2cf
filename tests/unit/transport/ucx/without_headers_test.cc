#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/ucx.h"

namespace crossdock::transport {
namespace {

TEST(UcxWithoutHeaders, TheReportSaysSo) {
  const UcxReport report = find_ucx();
  EXPECT_FALSE(report.found);
  EXPECT_THAT(report.tried, ::testing::ElementsAre(::testing::HasSubstr("without UCX's headers (libucx-dev)")));
}

}  // namespace
}  // namespace crossdock::transport
