#include "exchange/foreign_stream.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "crossdock/core/error.h"
#include "support/cuda_target_test.h"
#include "support/message_of.h"
#include "unit/device/sim/support.h"
#include "unit/device/support.h"
#include "unit/exchange/support.h"

namespace crossdock::exchange {
namespace {

using crossdock::testing::CudaTargetTest;
using crossdock::testing::kFirst;
using crossdock::testing::kSecond;
using crossdock::testing::message_of;
using device::Device;
using device::DeviceType;
using device::Queue;
using ::testing::HasSubstr;

class ForeignStreamTest : public device::SimTest {
 protected:
  ForeignStreamTest() {
    drivers_.add(device::make_default_registry()->find("host"));
    drivers_.add(driver_);
  }
  device::DriverRegistry drivers_;
};

TEST_F(ForeignStreamTest, IsOfTheDeviceThatItWasMadeOn) {
  const Queue theirs = driver_->open(device::kOne)->make_queue();
  EXPECT_EQ(wrap_stream(theirs.native(), {device::kZero}, nullptr, drivers_), theirs);
  EXPECT_EQ(wrap_stream(queue_.native(), {device::kOne}, nullptr, drivers_), queue_);
}

TEST_F(ForeignStreamTest, WhatTheDriverCantTellIsOfTheOtherDevice) {
  EXPECT_EQ(wrap_stream(nullptr, {Device{}}, nullptr, drivers_).device(), Device{});
  int made_up = 0;
  EXPECT_THROW(wrap_stream(&made_up, {device::kZero}, nullptr, drivers_), InvalidArgumentError);
  EXPECT_THROW(wrap_stream(&made_up, {kFirst}, nullptr, drivers_), UnsupportedError);
  EXPECT_THROW(wrap_cuda_stream(1, kFirst, nullptr, drivers_), UnsupportedError);
}

class ForeignCudaStream : public CudaTargetTest {
 protected:
  void SetUp() override {
    CudaTargetTest::SetUp();
    if (IsSkipped()) return;
    drivers_.add(driver_);
  }
  std::uint64_t retained() const {
    return cuda_->calls("cuDevicePrimaryCtxRetain") - cuda_->calls("cuDevicePrimaryCtxRelease_v2");
  }
  bool two() const { return driver_->devices().size() > 1; }
  /// What another library does on a device, with its primary context current.
  template <typename Work>
  void on(int device, Work work) const {
    void* context = nullptr;
    cuda_->run("cuDevicePrimaryCtxRetain", &context, device);
    cuda_->run("cuCtxPushCurrent_v2", context);
    work();
    cuda_->run("cuCtxPopCurrent_v2", &context);
    cuda_->run("cuDevicePrimaryCtxRelease_v2", device);
  }
  Queue wrapped(void* stream, const std::optional<Device>& said = std::nullopt) const {
    return wrap_cuda_stream(number(stream), said, nullptr, drivers_);
  }
  std::string refused(std::int64_t handle, const std::optional<Device>& said = std::nullopt) const {
    return message_of<InvalidArgumentError>([&] { wrap_cuda_stream(handle, said, nullptr, drivers_); });
  }
  static std::int64_t number(void* stream) {
    return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(stream));
  }

  device::DriverRegistry drivers_;
};

TEST_P(ForeignCudaStream, IsOfTheDeviceThatItWasMadeOn) {
  if (!two()) GTEST_SKIP() << "one device";
  on(0, [&] {
    void* here = cuda_->make_stream();
    on(1, [&] {
      void* there = cuda_->make_stream();
      EXPECT_EQ(wrapped(there).device(), kSecond);
      EXPECT_EQ(wrapped(here).device(), kFirst) << "whichever is current";
      EXPECT_EQ(wrap_stream(here, {kSecond}, nullptr, drivers_).device(), kFirst);
      EXPECT_EQ(wrap_stream(there, {kFirst}, nullptr, drivers_).device(), kSecond);
      EXPECT_EQ(wrapped(there, kFirst).device(), kSecond) << "the handle says it";
      // A thread that uses no device of its own
      std::thread([&] { EXPECT_EQ(wrapped(there).device(), kSecond); }).join();
      cuda_->run("cuStreamDestroy_v2", there);
    });
    cuda_->run("cuStreamDestroy_v2", here);
  });
}

TEST_P(ForeignCudaStream, OpensNoOtherDevice) {
  if (!on_fake() || !two()) GTEST_SKIP() << "needs a second device, and to see what is retained";
  on(1, [&] {
    void* there = cuda_->make_stream();
    const std::uint64_t before = retained();
    EXPECT_EQ(wrap_stream(there, {kFirst}, nullptr, drivers_).device(), kSecond);
    EXPECT_EQ(wrapped(there).device(), kSecond);
    EXPECT_EQ(retained(), before + 1) << "by the registry, for the second device";
    cuda_->run("cuStreamDestroy_v2", there);
  });
}

TEST_P(ForeignCudaStream, WithoutACurrentContextAnOpenOneIsAsked) {
  if (!on_fake()) GTEST_SKIP() << "counts calls";
  void* stream = nullptr;
  on(0, [&] { stream = cuda_->make_stream(); });
  const auto open = drivers_.context(kFirst);
  const std::uint64_t before = cuda_->calls("cuCtxPushCurrent_v2");
  EXPECT_EQ(driver_->context_of_queue(device::NativeQueue(stream))->device, kFirst);
  EXPECT_EQ(cuda_->calls("cuCtxPushCurrent_v2"), before + 1);
  EXPECT_EQ(cuda_->current(), nullptr) << "the thread is left as it was";
  on(0, [&] { cuda_->run("cuStreamDestroy_v2", stream); });
}

TEST_P(ForeignCudaStream, DefaultStreamsAreOfTheDeviceThatIsSaidElseCurrent) {
  const Device last = driver_->devices().back();
  for (const std::int64_t handle : {0, 1, 2}) {
    on(0, [&] {
      EXPECT_EQ(wrap_cuda_stream(handle, std::nullopt, nullptr, drivers_).device(), kFirst);
      EXPECT_EQ(wrap_cuda_stream(handle, last, nullptr, drivers_).device(), last);
    });
    on(static_cast<int>(last.id), [&] {
      EXPECT_EQ(wrap_cuda_stream(handle, std::nullopt, nullptr, drivers_).device(), last);
      EXPECT_EQ(wrap_cuda_stream(handle, kFirst, nullptr, drivers_).device(), kFirst);
    });
    EXPECT_THAT(refused(handle), HasSubstr("make a context of that device current"));
    EXPECT_EQ(wrap_cuda_stream(handle, last, nullptr, drivers_).device(), last);
  }
  EXPECT_FALSE(driver_->current_context());
  EXPECT_THROW(wrap_cuda_stream(1, Device{DeviceType::kCuda, 1000}, nullptr, drivers_), NotFoundError);
}

TEST_P(ForeignCudaStream, WhatIsNoStream) {
  EXPECT_THAT(refused(-1), HasSubstr("-1 is not a valid handle"));
  EXPECT_THAT(refused(1, Device{}), HasSubstr("cpu, is not a CUDA device"));
  if (!on_fake()) return;  // CUDA may look into what it is given
  EXPECT_THAT(refused(0x1234560), HasSubstr("was destroyed, or is not a stream"));
  void* stream = nullptr;
  on(0, [&] {
    stream = cuda_->make_stream();
    cuda_->run("cuStreamDestroy_v2", stream);
  });
  EXPECT_THAT(refused(number(stream)), HasSubstr("was destroyed, or is not a stream"));
}

TEST_P(ForeignCudaStream, IsOfItsOwnContext) {
  void* theirs = cuda_->make_context(0);
  void* stream = cuda_->make_stream();
  {
    const Queue queue = wrapped(stream);
    EXPECT_EQ(queue.device(), kFirst);
    EXPECT_EQ(queue.native_context().get(), theirs);
    const auto context = drivers_.context(queue);
    EXPECT_EQ(context->native_context().get(), theirs);
    EXPECT_NE(context, drivers_.context(kFirst));
    EXPECT_EQ(context, drivers_.context(wrapped(stream))) << "one for each native context";
    context->wait(context->record(queue));
    // A default stream is that of the context that is current.
    EXPECT_EQ(wrapped(nullptr).native_context().get(), theirs);
    EXPECT_EQ(wrapped(nullptr, kFirst).native_context().get(), nullptr);
  }
  cuda_->run("cuStreamDestroy_v2", stream);
  cuda_->run("cuCtxDestroy_v2", theirs);
}

CROSSDOCK_ON_CUDA(ForeignCudaStream);

}  // namespace
}  // namespace crossdock::exchange
