#include "crossdock/device/device.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace crossdock::device {
namespace {

TEST(Device, HasTheNumbersOfArrowAndDlpack) {
  EXPECT_EQ(static_cast<int>(DeviceType::kCpu), 1);
  EXPECT_EQ(static_cast<int>(DeviceType::kCuda), 2);
  EXPECT_EQ(static_cast<int>(DeviceType::kCudaHost), 3);
  EXPECT_EQ(static_cast<int>(DeviceType::kOpenCl), 4);
  EXPECT_EQ(static_cast<int>(DeviceType::kVulkan), 7);
  EXPECT_EQ(static_cast<int>(DeviceType::kExtDev), 12);
  EXPECT_EQ(static_cast<int>(DeviceType::kCudaManaged), 13);
  EXPECT_EQ(static_cast<int>(DeviceType::kOneApi), 14);
  EXPECT_EQ(static_cast<int>(DeviceType::kTrainium), 18);
}

TEST(Device, NamesEveryNumberThatHasOne) {
  std::unordered_set<std::string_view> names;
  for (int number = 1; number <= 18; ++number) {
    const std::string_view name = device_type_name(static_cast<DeviceType>(number));
    if (number == 5 || number == 6) {
      EXPECT_EQ(name, "");  // never given out
    } else {
      EXPECT_FALSE(name.empty()) << number;
      EXPECT_TRUE(names.insert(name).second) << name;
    }
  }
}

TEST(Device, CarriesAnUnknownTypeThrough) {
  const Device unknown{.type = static_cast<DeviceType>(77), .id = 3};
  EXPECT_EQ(static_cast<int>(unknown.type), 77);
  EXPECT_EQ(device_type_name(unknown.type), "");
  EXPECT_EQ(to_string(unknown), "device type 77:3");
  EXPECT_FALSE(host_readable(unknown.type));
}

TEST(Device, EveryCpuIsTheSame) {
  const Device a{.type = DeviceType::kCpu, .id = -1};
  const Device b{.type = DeviceType::kCpu, .id = 0};
  EXPECT_EQ(a, b);
  EXPECT_EQ(std::hash<Device>{}(a), std::hash<Device>{}(b));
  EXPECT_EQ(to_string(b), "cpu");
  const Device c{.type = DeviceType::kCuda, .id = 0};
  const Device d{.type = DeviceType::kCuda, .id = 1};
  EXPECT_NE(c, d);
  EXPECT_NE(a, c);
  EXPECT_EQ(to_string(d), "cuda:1");
}

TEST(Device, SaysWhatTheHostMayRead) {
  EXPECT_TRUE(host_readable(DeviceType::kCpu));
  EXPECT_TRUE(host_readable(DeviceType::kCudaHost));
  EXPECT_TRUE(host_readable(DeviceType::kRocmHost));
  EXPECT_FALSE(host_readable(DeviceType::kCuda));
  EXPECT_FALSE(host_readable(DeviceType::kOneApi));
}

}  // namespace
}  // namespace crossdock::device
