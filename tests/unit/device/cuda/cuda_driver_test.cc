#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/device/registry.h"
#include "device/memory_handle.h"
#include "support/cuda.h"
#include "support/message_of.h"
#include "support/scoped_variable.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::Cuda;
using crossdock::testing::message_of;
using crossdock::testing::ScopedVariable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Finding and starting CUDA: on the fake, which can be made to fail.
class CudaDriver : public ::testing::Test {
 protected:
  void SetUp() override { cuda_.control("crossdockCudaFakeReset"); }
  void TearDown() override { cuda_.control("crossdockCudaFakeReset"); }

  std::shared_ptr<Driver> make(const std::string& library = CROSSDOCK_CUDA_FAKE) {
    tried_.clear();
    return make_cuda_driver({library}, &tried_);
  }

  Cuda cuda_{"Fake"};
  std::vector<std::string> tried_;
};

TEST_F(CudaDriver, SaysItsVersionAndDevices) {
  const auto driver = make();
  ASSERT_NE(driver, nullptr);
  EXPECT_THAT(tried_, IsEmpty());
  EXPECT_EQ(driver->name(), "cuda");
  EXPECT_EQ(driver->version(), "CUDA 12.8");
  EXPECT_THAT(driver->devices(),
              ElementsAre(Device{.type = DeviceType::kCuda, .id = 0}, Device{.type = DeviceType::kCuda, .id = 1}));
  EXPECT_EQ(driver->why_no_devices(), "");
}

TEST_F(CudaDriver, DoesntStartCudaUntilDevicesAreAskedFor) {
  const auto driver = make();
  EXPECT_EQ(cuda_.calls("cuInit"), 0u);
  driver->devices();
  driver->devices();
  EXPECT_EQ(cuda_.calls("cuInit"), 1u);
}

TEST_F(CudaDriver, LooksWhereTheEnvironmentSaysAndNowhereElse) {
  EXPECT_THAT(cuda_library_candidates(), ElementsAre("libcuda.so.1", "libcuda.so"));
  const ScopedVariable chosen("CROSSDOCK_CUDA_LIBRARY", "/some/where/libcuda.so.1");
  EXPECT_THAT(cuda_library_candidates(), ElementsAre("/some/where/libcuda.so.1"));
}

TEST_F(CudaDriver, IsReportedByTheDefaultRegistry) {
  const auto report = [] {
    for (const DriverReport& each : make_default_registry()->reports()) {
      if (each.name == "cuda") return each;
    }
    return DriverReport{};
  };
  {
    const ScopedVariable chosen("CROSSDOCK_CUDA_LIBRARY", CROSSDOCK_CUDA_FAKE);
    const DriverReport found = report();
    EXPECT_TRUE(found.found);
    EXPECT_EQ(found.version, "CUDA 12.8");
    EXPECT_EQ(found.devices.size(), 2u);
    EXPECT_THAT(found.tried, IsEmpty());
    EXPECT_EQ(make_default_registry()->for_type(DeviceType::kCudaManaged)->name(), "cuda");
  }
  {
    const ScopedVariable chosen("CROSSDOCK_CUDA_LIBRARY", CROSSDOCK_CUDA_FAKE);
    cuda_.fail("cuInit", 1, 100);
    const DriverReport found = report();
    EXPECT_TRUE(found.found);
    EXPECT_EQ(found.version, "CUDA 12.8");
    EXPECT_THAT(found.devices, IsEmpty());
    EXPECT_THAT(found.tried, ElementsAre(HasSubstr("CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)")));
  }
  {
    const ScopedVariable chosen("CROSSDOCK_CUDA_LIBRARY", "/no/such/libcuda.so.1");
    const DriverReport missing = report();
    EXPECT_FALSE(missing.found);
    EXPECT_THAT(missing.tried, ElementsAre(HasSubstr("/no/such/libcuda.so.1: ")));
    EXPECT_THAT(message_of<UnsupportedError>([] { make_default_registry()->for_type(DeviceType::kCuda); }),
                HasSubstr("cuda (not found), tried /no/such/libcuda.so.1"));
  }
}

TEST_F(CudaDriver, IsntFoundInAnotherLibrary) {
  EXPECT_EQ(make("libm.so.6"), nullptr);
  EXPECT_THAT(tried_, ElementsAre(HasSubstr("libm.so.6: lacks cuInit, ")));
}

TEST_F(CudaDriver, TriesTheNextCandidate) {
  std::vector<std::string> tried;
  EXPECT_NE(make_cuda_driver({"libm.so.6", "/no/such.so", CROSSDOCK_CUDA_FAKE}, &tried), nullptr);
  EXPECT_THAT(tried, ElementsAre(HasSubstr("libm.so.6: lacks"), HasSubstr("/no/such.so: ")));
  EXPECT_NE(make_cuda_driver({"libm.so.6", CROSSDOCK_CUDA_FAKE}), nullptr);
}

TEST_F(CudaDriver, IsntFoundWhereAFunctionIsMissing) {
  cuda_.control("crossdockCudaFakeHide", "cuStreamWaitEvent");
  EXPECT_EQ(make(), nullptr);
  EXPECT_THAT(tried_, ElementsAre(::testing::EndsWith(": lacks cuStreamWaitEvent")));
}

TEST_F(CudaDriver, IsntFoundWhereCudaIsTooOld) {
  cuda_.control("crossdockCudaFakeSetVersion", 10020);
  EXPECT_EQ(make(), nullptr);
  EXPECT_THAT(tried_, ElementsAre(HasSubstr("is of CUDA 10.2, but CUDA 11.2 or later is needed")));
  cuda_.control("crossdockCudaFakeSetVersion", 11020);
  EXPECT_NE(make(), nullptr);
  cuda_.fail("cuDriverGetVersion", 1, 999);
  EXPECT_EQ(make(), nullptr);
  EXPECT_THAT(tried_, ElementsAre(HasSubstr("cuDriverGetVersion failed")));
}

TEST_F(CudaDriver, FindsFunctionsByNameInOldLibraries) {
  const auto driver = make(CROSSDOCK_CUDA_FAKE_BY_NAME);
  ASSERT_NE(driver, nullptr);
  const auto context = driver->open(driver->devices().front());
  const Queue queue = context->make_queue();
  const Buffer buffer = context->allocate(4, MemoryKind::kDevice, Sharing::kExportable, queue);
  EXPECT_NO_THROW(context->import_memory(context->export_memory(buffer.ref()), "here"));
}

TEST_F(CudaDriver, HasNoDevicesWhereCudaDoesntStart) {
  for (const int result : {100, 3, 34, 999}) {
    cuda_.fail("cuInit", 1, result);
    const auto driver = make();
    ASSERT_NE(driver, nullptr);
    EXPECT_EQ(driver->version(), "CUDA 12.8");
    EXPECT_THAT(driver->devices(), IsEmpty());
    EXPECT_THAT(driver->why_no_devices(), HasSubstr("CUDA_ERROR_"));
    EXPECT_THAT(message_of<NotFoundError>([&] { driver->open({.type = DeviceType::kCuda, .id = 0}); }),
                HasSubstr("couldn't be started: CUDA_ERROR_"));
  }
}

TEST_F(CudaDriver, MayBeUsedByAChildOfAProcessThatOnlyLookedForIt) {
  // A library of its own, which no other test has started.
  crossdock::testing::ScopedFolder folder;
  const std::string library = folder.path_of("libcuda_fake.so");
  std::filesystem::copy_file(CROSSDOCK_CUDA_FAKE, library);
  const auto driver = make(library);
  ASSERT_NE(driver, nullptr);
  EXPECT_EQ(crossdock::testing::run_in_child([&] {
              if (driver->open(driver->devices().front()) == nullptr) ::_exit(1);
            }),
            0);
}

}  // namespace
}  // namespace crossdock::device
