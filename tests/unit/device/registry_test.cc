#include "crossdock/device/registry.h"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>

#include "crossdock/core/error.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using ::testing::HasSubstr;

class NamedDriver final : public Driver {
 public:
  std::string_view name() const noexcept override { return "named"; }
  std::string version() const override { return "1.2"; }
  std::vector<Device> devices() const override { return devices_; }
  DeviceInfo info(const Device& device) const override {
    return {.device = device, .backend = "named", .name = "One", .kinds = {}};
  }
  bool handles(DeviceType type) const noexcept override { return type == DeviceType::kExtDev; }
  std::shared_ptr<Context> open(const Device&, NativeContext) override {
    throw UnsupportedError("named opens nothing");
  }

  std::vector<Device> devices_ = {{.type = DeviceType::kExtDev, .id = 4}};
};

constexpr Device kFour{.type = DeviceType::kExtDev, .id = 4};
constexpr Device kFive{.type = DeviceType::kExtDev, .id = 5};

/// Opens the host's contexts under another name, and counts.
class CountingDriver final : public Driver {
 public:
  std::string_view name() const noexcept override { return "counting"; }
  std::string version() const override { return "3"; }
  std::vector<Device> devices() const override { return {kFour, kFive}; }
  DeviceInfo info(const Device& device) const override {
    return {.device = device, .backend = "counting", .name = "Two", .kinds = {}};
  }
  bool handles(DeviceType type) const noexcept override { return type == DeviceType::kExtDev; }
  std::shared_ptr<Context> open(const Device& device, NativeContext) override {
    ++opened;
    if (failing) throw ResourceError("the driver is out of contexts");
    if (device == kFive && while_opening_five) while_opening_five();
    return host->open({});
  }

  std::shared_ptr<Driver> host = make_default_registry()->find("host");
  std::atomic<int> opened{0};
  std::atomic<bool> failing{false};
  std::function<void()> while_opening_five;
};

TEST(Registry, HasTheHostDriverByDefault) {
  const auto registry = make_default_registry();
  ASSERT_FALSE(registry->reports().empty());
  const DriverReport host = registry->reports().front();
  EXPECT_EQ(host.name, "host");
  EXPECT_TRUE(host.found);
  EXPECT_THAT(host.version, HasSubstr("Linux"));
  ASSERT_EQ(host.devices.size(), 1u);
  EXPECT_EQ(host.devices.front(), Device{});
  EXPECT_EQ(registry->find("host"), registry->for_type(DeviceType::kCpu));
  EXPECT_EQ(registry->find("nothing"), nullptr);
  EXPECT_NE(make_default_registry(), registry) << "registries are made, not shared";
}

TEST(Registry, OfTwoDriversForATypeTheFirstThatHasTheDeviceServesIt) {
  DriverRegistry registry;
  const auto named = std::make_shared<NamedDriver>();
  const auto counting = std::make_shared<CountingDriver>();
  registry.add(named);
  registry.add(counting);
  EXPECT_EQ(registry.for_type(DeviceType::kExtDev), named);
  EXPECT_EQ(registry.for_device(kFour), named) << "both have it";
  EXPECT_EQ(registry.for_device(kFive), counting);
  EXPECT_EQ(registry.for_device({.type = DeviceType::kExtDev, .id = 6}), named) << "none has it";
  EXPECT_NE(registry.context(kFive), nullptr);
  EXPECT_EQ(counting->opened, 1);
  EXPECT_THROW(registry.context(kFour), UnsupportedError);
}

TEST(Registry, ReportsWhatWasFoundAndWhatWasTried) {
  DriverRegistry registry;
  registry.add(std::make_shared<NamedDriver>(), {"libnamed.so.2: not there"});
  registry.add_missing("cuda", {"libcuda.so.1: no such file"});
  ASSERT_EQ(registry.reports().size(), 2u);
  EXPECT_EQ(registry.reports()[0].version, "1.2");
  EXPECT_THAT(registry.reports()[0].tried, ::testing::ElementsAre("libnamed.so.2: not there"));
  EXPECT_FALSE(registry.reports()[1].found);
  EXPECT_EQ(registry.find("cuda"), nullptr);
  EXPECT_EQ(registry.for_type(DeviceType::kExtDev), registry.find("named"));
  const std::string what = message_of<UnsupportedError>([&] { registry.for_type(DeviceType::kCuda); });
  EXPECT_THAT(what, HasSubstr("memory of cuda"));
  EXPECT_THAT(what, HasSubstr("named (found"));
  EXPECT_THAT(what, HasSubstr("cuda (not found), tried libcuda.so.1: no such file"));
}

TEST(Registry, ReportsTheDevicesThatThereAreNow) {
  DriverRegistry registry;
  const auto driver = std::make_shared<NamedDriver>();
  registry.add(driver);
  EXPECT_THAT(registry.reports()[0].devices, ::testing::ElementsAre(kFour));
  driver->devices_.push_back(kFive);
  EXPECT_THAT(registry.reports()[0].devices, ::testing::ElementsAre(kFour, kFive));
  driver->devices_.clear();
  EXPECT_THAT(registry.reports()[0].devices, ::testing::IsEmpty());
}

TEST(Registry, OpensADeviceOnceForAll) {
  DriverRegistry registry;
  const auto driver = std::make_shared<CountingDriver>();
  registry.add(driver);
  EXPECT_EQ(driver->opened, 0) << "not before it is asked for";
  const std::shared_ptr<Context> context = registry.context(kFour);
  EXPECT_EQ(registry.context(kFour), context);
  EXPECT_EQ(driver->opened, 1);
  EXPECT_NE(registry.context(kFive), context);
  EXPECT_EQ(driver->opened, 2);
  DriverRegistry other;
  other.add(driver);
  EXPECT_NE(other.context(kFour), context) << "each registry has its own";
}

TEST(Registry, EveryCpuIsOneContext) {
  const auto registry = make_default_registry();
  EXPECT_EQ(registry->context({}), registry->context({.type = DeviceType::kCpu, .id = 3}));
}

TEST(Registry, OpensADeviceOnceForManyThreads) {
  DriverRegistry registry;
  const auto driver = std::make_shared<CountingDriver>();
  registry.add(driver);
  std::vector<std::shared_ptr<Context>> seen(8);
  std::vector<std::thread> threads;
  for (auto& one : seen) {
    threads.emplace_back([&registry, &one] {
      registry.default_queue(kFour);
      one = registry.context(kFour);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver->opened, 1);
  EXPECT_THAT(seen, ::testing::Each(registry.context(kFour)));
}

TEST(Registry, OpeningOneDeviceKeepsNobodyFromAnother) {
  DriverRegistry registry;
  const auto driver = std::make_shared<CountingDriver>();
  registry.add(driver);
  // In the thread that opens device 5: with one lock for all, this would never end.
  driver->while_opening_five = [&] { std::thread([&] { registry.context(kFour); }).join(); };
  EXPECT_NE(registry.context(kFive), nullptr);
  EXPECT_EQ(driver->opened, 2);
}

TEST(Registry, TriesAgainWhatCouldntBeOpened) {
  DriverRegistry registry;
  const auto driver = std::make_shared<CountingDriver>();
  registry.add(driver);
  driver->failing = true;
  EXPECT_THROW(registry.context(kFour), ResourceError);
  EXPECT_THROW(registry.default_queue(kFour), ResourceError);
  driver->failing = false;
  EXPECT_NE(registry.context(kFour), nullptr);
}

TEST(Registry, SaysWhyADeviceCantBeOpened) {
  const auto registry = make_default_registry();
  const Device unknown{.type = static_cast<DeviceType>(77), .id = 0};
  EXPECT_THAT(message_of<UnsupportedError>([&] { registry->context(unknown); }), HasSubstr("device type 77"));
  EXPECT_THAT(message_of<UnsupportedError>([&] { registry->default_queue(unknown); }), HasSubstr("device type 77"));
  EXPECT_EQ(registry->context_or_null(unknown), nullptr);
  EXPECT_EQ(registry->context_or_null({}), registry->context({}));
}

TEST(Registry, HasOneQueuePerDeviceForWorkThatNamesNone) {
  const auto registry = make_default_registry();
  const Queue queue = registry->default_queue({});
  EXPECT_EQ(queue.device(), Device{});
  EXPECT_EQ(registry->default_queue({}).native(), queue.native());
}

TEST(Registry, KnowsWhatIsOpenAlready) {
  DriverRegistry registry;
  const auto driver = std::make_shared<CountingDriver>();
  registry.add(driver);
  registry.add(std::make_shared<NamedDriver>());
  EXPECT_EQ(registry.opened_context(kFour.type), nullptr);
  driver->failing = true;
  EXPECT_THROW(registry.context(kFour), ResourceError);
  EXPECT_EQ(registry.opened_context(kFour.type), nullptr);
  driver->failing = false;
  const auto context = registry.context(kFour);
  EXPECT_EQ(registry.opened_context(kFour.type), context);
  EXPECT_EQ(registry.opened_context(DeviceType::kCpu), nullptr) << "another driver's";
}

TEST(Registry, RefusesANameTwiceAndNothing) {
  DriverRegistry registry;
  registry.add(std::make_shared<NamedDriver>());
  EXPECT_THROW(registry.add(std::make_shared<NamedDriver>()), InvalidArgumentError);
  EXPECT_THROW(registry.add_missing("named", {}), InvalidArgumentError);
  EXPECT_THROW(registry.add(nullptr), InvalidArgumentError);
  EXPECT_EQ(registry.reports().size(), 1u);
}

TEST(Registry, SaysThatItIsEmpty) {
  EXPECT_THAT(message_of<UnsupportedError>([] { DriverRegistry().for_type(static_cast<DeviceType>(77)); }),
              HasSubstr("device type 77; drivers: none"));
}

}  // namespace
}  // namespace crossdock::device
