#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "crossdock/core/error.h"
#include "crossdock/device/registry.h"
#include "support/message_of.h"
#include "support/scoped_variable.h"
#include "support/sycl.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using crossdock::testing::run_in_child;
using crossdock::testing::ScopedVariable;
using crossdock::testing::Sycl;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Looking for it

TEST(SyclLibraries, AreLookedForWhereTheEnvironmentSays) {
  {
    const ScopedVariable chosen("CROSSDOCK_SYCL_LIBRARY", "/opt/it.so");
    EXPECT_THAT(sycl_library_candidates({"/found/by/python.so"}), ElementsAre("/opt/it.so"));
  }
  for (const char* none : {"", static_cast<const char*>(nullptr)}) {
    const ScopedVariable chosen("CROSSDOCK_SYCL_LIBRARY", none);
    EXPECT_THAT(sycl_library_candidates(), ElementsAre("libDPCTLSyclInterface.so"));
    EXPECT_THAT(sycl_library_candidates({"/found/by/python.so"}),
                ElementsAre("/found/by/python.so", "libDPCTLSyclInterface.so"));
  }
}

TEST(SyclLibraries, AreReportedIfTheyArentThere) {
  std::vector<std::string> tried;
  EXPECT_EQ(make_sycl_driver({"/no/such.so", "libm.so.6"}, &tried), nullptr);
  EXPECT_THAT(tried, ElementsAre(HasSubstr("/no/such.so: "), HasSubstr("libm.so.6: lacks DPCTLService_")));
  EXPECT_EQ(make_sycl_driver({"/no/such.so"}), nullptr);
}

TEST(SyclLibraries, OfAnotherVersionAreReportedWithWhatTheyLack) {
  std::vector<std::string> tried;
  EXPECT_EQ(make_sycl_driver({CROSSDOCK_SYCL_INCOMPLETE}, &tried), nullptr);
  EXPECT_THAT(tried, ElementsAre(HasSubstr(": lacks DPCTLQueue_HasEnableProfiling; it isn't a dpctl library, or is of "
                                           "another version: install dpctl 0.22 or later")));
}

TEST(SyclLibraries, MissingOnesLeaveTheOtherDriversUsable) {
  const ScopedVariable chosen("CROSSDOCK_SYCL_LIBRARY", "/no/such.so");
  const auto registry = make_default_registry({.sycl_libraries = {"/nor/this.so"}});
  EXPECT_EQ(registry->find("sycl"), nullptr);
  EXPECT_NE(registry->find("sim"), nullptr);
  EXPECT_THAT(message_of<UnsupportedError>([&] { registry->for_type(DeviceType::kOneApi); }),
              HasSubstr("sycl (not found), tried /no/such.so: "));
  ASSERT_EQ(registry->reports().size(), 4u);
  EXPECT_EQ(registry->reports()[2].name, "sycl");
  EXPECT_FALSE(registry->reports()[2].found);
}

TEST(SyclLibraries, OfTheCallersChoiceComeFirst) {
  const ScopedVariable chosen("CROSSDOCK_SYCL_LIBRARY", nullptr);
  const auto registry = make_default_registry({.sycl_libraries = {"/this/one.so"}});
  EXPECT_THAT(registry->reports()[2].tried, Contains(HasSubstr("/this/one.so: ")));
}

// The real one. What happens before SYCL is started is looked at in a process of its own.

class SyclStart : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* chosen = std::getenv("CROSSDOCK_SYCL_LIBRARY");
    if (chosen == nullptr || *chosen == '\0') GTEST_SKIP() << "CROSSDOCK_SYCL_LIBRARY names no SYCL library";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  static std::shared_ptr<SyclDriver> make() { return make_sycl_driver(sycl_library_candidates()); }
};

/// What a child of this process can do after SYCL was looked for, and after it was started.
void fork_before_and_after() {
  const auto driver = make_sycl_driver(sycl_library_candidates());
  driver->version();
  const int before = run_in_child([&] {
    const auto context = driver->open({.type = DeviceType::kOneApi, .id = 0});
    const Queue queue = context->make_queue();
    context->wait(context->record(queue));
  });
  const auto context = driver->open({.type = DeviceType::kOneApi, .id = 0});
  std::optional<Queue> queue = context->make_queue();
  std::optional<Buffer> buffer = context->allocate(64, MemoryKind::kDevice, Sharing::kPrivate, *queue);
  context->free(context->allocate(64, MemoryKind::kDevice, Sharing::kPrivate, *queue), *queue);
  const Event event = context->record(*queue);
  const int after = run_in_child([&] {
    const auto refused = [](auto work) {
      try {
        work();
      } catch (const ForkError&) {
        return;
      }
      ::_exit(3);
    };
    refused([&] { driver->devices(); });
    refused([&] { driver->open({.type = DeviceType::kOneApi, .id = 0}); });
    refused([&] { context->make_queue(); });
    refused([&] { context->allocate(64, MemoryKind::kDevice, Sharing::kPrivate, *queue); });
    refused([&] { context->record(*queue); });
    refused([&] { context->describe(&before); });
    refused([&] { driver->queue_info(*queue); });
    refused([&] { driver->wrap_queue(NativeQueue(queue->native())); });
    refused([&] { context->wait(event); });
    // What it drops is the parent's.
    buffer.reset();
    queue.reset();
  });
  context->wait(context->record(*queue));
  std::fprintf(stderr, "before %d, after %d.", before, after);
  std::_Exit(0);
}

TEST_F(SyclStart, IsOnTheFirstUseSoThatOthersMayFork) {
  EXPECT_EXIT(fork_before_and_after(), ::testing::ExitedWithCode(0), "before 0, after 0\\.");
}

void start_without_run_time() {
  ::setenv("OCL_ICD_FILENAMES", "", 1);
  ::setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:npu", 1);
  const auto driver = make_sycl_driver(sycl_library_candidates());
  std::string opened;
  try {
    driver->open({.type = DeviceType::kOneApi, .id = 0});
  } catch (const NotFoundError& error) {
    opened = error.what();
  }
  std::fprintf(stderr, "%zu devices. %s. %s", driver->devices().size(), driver->why_no_devices().c_str(),
               opened.c_str());
  std::_Exit(0);
}

TEST_F(SyclStart, SaysHowDevicesAreFoundWhereThereAreNone) {
  EXPECT_EXIT(start_without_run_time(), ::testing::ExitedWithCode(0),
              "0 devices. .*run time.*OCL_ICD_FILENAMES.*libintelocl.so.*no device "
              "oneapi:0; it has 0");
}

class SyclDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    driver_ = crossdock::testing::make_sycl_target(why_not);
    if (driver_ == nullptr) GTEST_SKIP() << why_not;
    device_ = driver_->devices().front();
  }

  std::shared_ptr<SyclDriver> driver_;
  Device device_;
};

TEST_F(SyclDriverTest, SaysWhatItIs) {
  EXPECT_EQ(driver_->name(), "sycl");
  EXPECT_THAT(driver_->version(), ::testing::StartsWith("SYCL, DPC++ 20"));
  EXPECT_TRUE(driver_->handles(DeviceType::kOneApi));
  EXPECT_FALSE(driver_->handles(DeviceType::kOpenCl));
  EXPECT_EQ(driver_->why_no_devices(), "");
}

TEST_F(SyclDriverTest, KnowsItsDevices) {
  const Sycl sycl;
  const DeviceInfo info = driver_->info(device_);
  const char* name = sycl.call<const char*>("DPCTLDevice_GetName", sycl.device());
  EXPECT_EQ(info.name, name);
  EXPECT_EQ(info.memory, sycl.call<std::uint64_t>("DPCTLDevice_GetGlobalMemSize", sycl.device()));
  EXPECT_THAT(info.backend, ::testing::AnyOf("opencl", "level_zero", "cuda", "hip"));
  EXPECT_EQ(info.device_class == DeviceClass::kCpu, sycl.call<bool>("DPCTLDevice_IsCPU", sycl.device()));
  EXPECT_THAT(info.kinds, Contains(MemoryKind::kDevice));
  const Device none{.type = DeviceType::kOneApi, .id = 77};
  EXPECT_THAT(message_of<NotFoundError>([&] { driver_->info(none); }), HasSubstr("no device oneapi:77; it has "));
  EXPECT_THROW(driver_->open({.type = DeviceType::kOneApi, .id = -1}), NotFoundError);
  EXPECT_THROW(driver_->open({.type = DeviceType::kCuda, .id = 0}), NotFoundError);
}

TEST_F(SyclDriverTest, OpensDevicesInTheContextThatDpctlUses) {
  const Sycl sycl;
  const auto native = sycl.queue();
  const auto context = driver_->open(device_);
  EXPECT_TRUE(driver_->same_context(context->make_queue(), context->wrap_queue(NativeQueue(native.get()), nullptr)));
}

TEST_F(SyclDriverTest, OpensDevicesInAContextThatItIsGiven) {
  const Sycl sycl;
  auto native = sycl.context();
  const auto context = driver_->open(device_, NativeContext(native.get()));
  const Queue queue = context->make_queue();
  const auto info = driver_->queue_info(queue);
  EXPECT_TRUE(sycl.call<bool>("DPCTLContext_AreEq", info.context.get(), native.get()));
  native.reset();
  EXPECT_TRUE(driver_->same_context(context->make_queue(), queue)) << "it was copied";
  EXPECT_FALSE(driver_->same_context(driver_->open(device_)->make_queue(), queue));
}

}  // namespace
}  // namespace crossdock::device
