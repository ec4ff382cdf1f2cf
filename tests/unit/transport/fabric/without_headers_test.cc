#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/fabric.h"

namespace crossdock::transport {
namespace {

TEST(FabricWithoutHeaders, TheReportSaysSo) {
  const FabricReport report = find_fabric();
  EXPECT_FALSE(report.found);
  EXPECT_THAT(report.tried,
              ::testing::ElementsAre(::testing::HasSubstr("without libfabric's headers (libfabric-dev)")));
}

}  // namespace
}  // namespace crossdock::transport
