#include "crossdock/array/c_abi.h"

#include <gtest/gtest.h>

#include <cstddef>

extern "C" std::size_t crossdock_test_device_array_size_in_c();
extern "C" std::size_t crossdock_test_foreign_array_size();

namespace {

TEST(CAbi, CAndCxxAgreeOnTheDeviceArray) {
  EXPECT_EQ(sizeof(ArrowDeviceArray), 128u);
  EXPECT_EQ(crossdock_test_device_array_size_in_c(), sizeof(ArrowDeviceArray));
}

TEST(CAbi, AForeignDefinitionUnderTheGuardHolds) { EXPECT_EQ(crossdock_test_foreign_array_size(), sizeof(int)); }

}  // namespace
