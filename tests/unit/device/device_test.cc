#include "crossdock/device/device.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <unordered_set>

#include "crossdock/core/error.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using ::testing::HasSubstr;

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

TEST(ParseDevice, ReadsWhatToStringPrints) {
  for (const int number : {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 5, 77, -3}) {
    for (const std::int64_t id : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
      const Device device{.type = static_cast<DeviceType>(number), .id = id};
      EXPECT_EQ(parse_device(to_string(device)), device) << to_string(device);
    }
  }
}

TEST(ParseDevice, TakesShortForms) {
  const Device cuda{.type = DeviceType::kCuda, .id = 0};
  EXPECT_EQ(parse_device("cuda"), cuda);
  EXPECT_EQ(parse_device("device type 2"), cuda);
  EXPECT_EQ(parse_device("cpu").id, -1) << "what Arrow recommends";
  EXPECT_EQ(parse_device("cpu:7").type, DeviceType::kCpu);
  EXPECT_EQ(parse_device("sim:2"), (Device{.type = DeviceType::kExtDev, .id = 2}));
  EXPECT_EQ(parse_device("sim"), parse_device("ext_dev:0"));
}

TEST(ParseDevice, RefusesWhatNamesNone) {
  for (const char* text : {"", ":", ":0", "cuda:", "cuda:x", "cuda:1x", "cuda: 1", "cuda:+1", "cuda:1:2", "CUDA:0",
                           "gpu", "cuda:9223372036854775808", "device type", "device type :0", "device type x:0",
                           "device type 2147483648:0", " cuda:0", "cpu:"}) {
    const std::string what = message_of<InvalidArgumentError>([&] { parse_device(text); });
    EXPECT_THAT(what, HasSubstr("\"" + std::string(text) + "\" is not a device"));
    EXPECT_THAT(what, HasSubstr("cuda_managed"));
    EXPECT_THAT(what, HasSubstr("trainium"));
  }
  EXPECT_THAT(message_of<InvalidArgumentError>([] { parse_device("a\x1b[31m"); }), HasSubstr("\"a\\x1b[31m\" is not"));
  EXPECT_LT(message_of<InvalidArgumentError>([] { parse_device(std::string(1 << 20, 'x')); }).size(), 1000U);
}

}  // namespace
}  // namespace crossdock::device
