#include "crossdock/device/registry.h"

#include <gmock/gmock.h>

#include "crossdock/core/error.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using ::testing::HasSubstr;

class NamedDriver final : public Driver {
 public:
  std::string_view name() const noexcept override { return "named"; }
  std::string version() const override { return "1.2"; }
  std::vector<Device> devices() const override { return {{.type = DeviceType::kExtDev, .id = 4}}; }
  bool handles(DeviceType type) const noexcept override { return type == DeviceType::kExtDev; }
  std::shared_ptr<Context> open(const Device&, void*) override { throw UnsupportedError("named opens nothing"); }
};

TEST(Registry, HasTheHostDriverByDefault) {
  const auto registry = make_default_registry();
  ASSERT_FALSE(registry->reports().empty());
  const DriverReport& host = registry->reports().front();
  EXPECT_EQ(host.name, "host");
  EXPECT_TRUE(host.found);
  EXPECT_THAT(host.version, HasSubstr("Linux"));
  ASSERT_EQ(host.devices.size(), 1u);
  EXPECT_EQ(host.devices.front(), Device{});
  EXPECT_EQ(registry->find("host"), registry->for_type(DeviceType::kCpu));
  EXPECT_EQ(registry->find("nothing"), nullptr);
  EXPECT_NE(make_default_registry(), registry) << "registries are made, not shared";
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
