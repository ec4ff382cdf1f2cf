#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "support/cuda.h"

namespace crossdock::testing {

/// A test of CUDA that its parameter puts on the fake, or on a GPU where there is one; elsewhere it is skipped. A
/// fixture on top of this one begins its SetUp() with this one's, and returns if the test IsSkipped() then.
class CudaTargetTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string why_not;
    driver_ = make_cuda_target(GetParam(), why_not);
    if (driver_ == nullptr) GTEST_SKIP() << why_not;
    cuda_ = std::make_unique<Cuda>(GetParam());
    reset();
  }

  bool on_fake() const { return GetParam() == "Fake"; }
  /// Forgets faults, arranged failures and delays.
  void reset() const {
    if (on_fake()) cuda_->control("crossdockCudaFakeReset");
  }
  /// Streams of the fake take this long for each piece of work; a GPU's as long as they do.
  void slow_down(std::uint64_t microseconds) const {
    if (on_fake()) cuda_->control("crossdockCudaFakeSetDelay", microseconds);
  }
  /// How often two streams met without an order between them, as far as it is known.
  std::uint64_t faults() const {
    if (!on_fake()) return 0;
    return static_cast<std::uint64_t>(
        cuda_->call("crossdockCudaFakeFaults", static_cast<char*>(nullptr), std::uint64_t{0}));
  }

  std::unique_ptr<Cuda> cuda_;
  std::shared_ptr<device::Driver> driver_;
};

/// The parameters, and the names that they give to tests: CROSSDOCK_ON_CUDA(CudaStreams);
#define CROSSDOCK_ON_CUDA(fixture) \
  INSTANTIATE_TEST_SUITE_P(, fixture, ::testing::Values("Fake", "Gpu"), [](const auto& target) { return target.param; })

}  // namespace crossdock::testing
