#include "crossdock/device/filter.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/device/sim.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Has what SYCL's would: a CPU and two GPUs, one of which is reached by CUDA.
class ManyDevices final : public Driver {
 public:
  explicit ManyDevices(std::string name, std::vector<DeviceInfo> infos)
      : name_(std::move(name)), infos_(std::move(infos)) {}
  std::string_view name() const noexcept override { return name_; }
  std::string version() const override { return "1"; }
  std::vector<Device> devices() const override {
    ++asked;
    if (forked) throw ForkError("before the fork");
    std::vector<Device> devices;
    for (const DeviceInfo& info : infos_) devices.push_back(info.device);
    return devices;
  }
  DeviceInfo info(const Device& device) const override {
    for (const DeviceInfo& info : infos_) {
      if (info.device == device) return info;
    }
    throw NotFoundError("no such device");
  }
  bool handles(DeviceType type) const noexcept override {
    return !infos_.empty() && infos_.front().device.type == type;
  }
  std::shared_ptr<Context> open(const Device&, void*) override { throw UnsupportedError("opens nothing"); }

  mutable int asked = 0;
  bool forked = false;

 private:
  std::string name_;
  std::vector<DeviceInfo> infos_;
};

DeviceInfo made(DeviceType type, std::int64_t id, DeviceClass device_class, std::string backend) {
  return {.device = {.type = type, .id = id},
          .device_class = device_class,
          .backend = std::move(backend),
          .name = "One",
          .kinds = {}};
}

class FilterTest : public ::testing::Test {
 protected:
  FilterTest() {
    registry_.add(host_);
    registry_.add(cuda_);
    registry_.add(sycl_);
    registry_.add_missing("sim", {"libamdhip64.so: not found"});
  }
  std::string chosen(std::string_view text) const { return to_string(select_device(registry_, text)); }

  const std::shared_ptr<ManyDevices> host_ =
      std::make_shared<ManyDevices>("host", std::vector{made(DeviceType::kCpu, -1, DeviceClass::kCpu, "host")});
  const std::shared_ptr<ManyDevices> cuda_ =
      std::make_shared<ManyDevices>("cuda", std::vector{made(DeviceType::kCuda, 0, DeviceClass::kGpu, "cuda"),
                                                        made(DeviceType::kCuda, 1, DeviceClass::kGpu, "cuda")});
  const std::shared_ptr<ManyDevices> sycl_ = std::make_shared<ManyDevices>(
      "sycl", std::vector{made(DeviceType::kOneApi, 0, DeviceClass::kGpu, "cuda"),
                          made(DeviceType::kOneApi, 1, DeviceClass::kGpu, "level_zero"),
                          made(DeviceType::kOneApi, 2, DeviceClass::kCpu, "opencl"),
                          made(DeviceType::kOneApi, 3, DeviceClass::kAccelerator, "opencl")});
  DriverRegistry registry_;
};

TEST_F(FilterTest, ChoosesByEachPart) {
  EXPECT_EQ(chosen("gpu"), "cuda:0");
  EXPECT_EQ(chosen("gpu:1"), "cuda:1");
  EXPECT_EQ(chosen("cuda"), "cuda:0");
  EXPECT_EQ(chosen("cuda:1"), "cuda:1");
  EXPECT_EQ(chosen("cuda:gpu:1"), "cuda:1");
  EXPECT_EQ(chosen("sycl"), "oneapi:0");
  EXPECT_EQ(chosen("sycl:gpu"), "oneapi:0");
  EXPECT_EQ(chosen("sycl:gpu:1"), "oneapi:1");
  EXPECT_EQ(chosen("level_zero"), "oneapi:1");
  EXPECT_EQ(chosen("level_zero:gpu:0"), "oneapi:1");
  EXPECT_EQ(chosen("opencl:1"), "oneapi:3");
  EXPECT_EQ(chosen("opencl::1"), "oneapi:3");
  EXPECT_EQ(chosen("accelerator"), "oneapi:3");
  EXPECT_EQ(chosen("host"), "cpu");
  EXPECT_EQ(chosen("host:cpu:0"), "cpu");
  EXPECT_EQ(chosen(":3"), "oneapi:1");
  EXPECT_EQ(chosen("0"), "cuda:0");
}

TEST_F(FilterTest, ACpuIsSyclsWhereThereIsOne) {
  EXPECT_EQ(chosen("cpu"), "oneapi:2");
  EXPECT_EQ(chosen("cpu:1"), "cpu");
  DriverRegistry without;
  without.add(host_);
  EXPECT_EQ(select_device(without, "cpu"), Device{});
}

TEST_F(FilterTest, NumbersCountOverDrivers) {
  EXPECT_EQ(chosen("gpu:2"), "oneapi:0");
  EXPECT_EQ(chosen("gpu:3"), "oneapi:1");
}

TEST_F(FilterTest, TakesTheFirstAlternativeThatThereIs) {
  EXPECT_EQ(chosen("level_zero:cpu,opencl:gpu,opencl:cpu,gpu"), "oneapi:2");
  EXPECT_EQ(chosen("gpu:7,cpu"), "oneapi:2");
  EXPECT_EQ(chosen(kDefaultFilter), "cuda:0");
}

TEST_F(FilterTest, StartsNoDriverThatTheTextLeavesOut) {
  EXPECT_EQ(chosen("cuda:1"), "cuda:1");
  EXPECT_EQ(chosen("gpu:1"), "cuda:1");
  EXPECT_EQ(sycl_->asked, 0);
  EXPECT_EQ(host_->asked, 0);
}

TEST_F(FilterTest, SaysWhatThereIs) {
  EXPECT_THAT(
      message_of<NotFoundError>([&] { chosen("gpu:4"); }),
      AllOf(HasSubstr("\"gpu:4\""), HasSubstr("cuda:gpu:1"), HasSubstr("level_zero:gpu:0"), HasSubstr("host:cpu:0"),
            HasSubstr("sim wasn't found (libamdhip64.so: not found)"), Not(HasSubstr("sycl has none"))));
}

TEST_F(FilterTest, ADriverThatIsMissingIsNamed) {
  EXPECT_THAT(message_of<NotFoundError>([&] { chosen("sim:gpu:1"); }), HasSubstr("libamdhip64.so"));
  EXPECT_THROW(chosen("sim,cuda:7"), NotFoundError);
}

TEST_F(FilterTest, ADriverThatBelongsToTheProcessBeforeAForkHasNoDevices) {
  sycl_->forked = true;
  EXPECT_EQ(chosen("cpu"), "cpu");
  EXPECT_THAT(message_of<NotFoundError>([&] { chosen("opencl:cpu"); }), HasSubstr("sycl has none (before the fork)"));
  std::string why;
  EXPECT_THAT(devices_of(*sycl_, &why), ::testing::IsEmpty());
  EXPECT_EQ(why, "before the fork");
  for (const NamedDevice& device : list_devices(registry_)) EXPECT_NE(device.driver, "sycl");
}

TEST_F(FilterTest, RefusesWhatIsNoFilterString) {
  for (const std::string text : {"",
                                 ",",
                                 "gpu,",
                                 ":",
                                 "::",
                                 "GPU",
                                 " gpu",
                                 "gpu ",
                                 "gpu: 0",
                                 "cpu, gpu",
                                 "gpu:-1",
                                 "gpu:+1",
                                 "gpu:1x",
                                 "gpu:0:1",
                                 "0:gpu",
                                 "gpu:cuda",
                                 "cuda:cuda",
                                 "gpu:gpu",
                                 "cuda:gpu:0:0",
                                 "nonsense",
                                 "fpga:0",
                                 "gpu:99999999999999999999",
                                 "1:",
                                 "cuda:gpu:1:",
                                 "\xff"}) {
    const std::string what = message_of<InvalidArgumentError>([&] { select_device(registry_, text); });
    EXPECT_THAT(what, AllOf(HasSubstr("\"" + text + "\" is no filter string"), HasSubstr("opencl:cpu:0"))) << text;
  }
}

TEST_F(FilterTest, ListsEveryDeviceByAFilterThatChoosesIt) {
  const std::vector<NamedDevice> all = list_devices(registry_);
  ASSERT_EQ(all.size(), 7u);
  for (const NamedDevice& one : all) {
    EXPECT_EQ(chosen(one.filter), to_string(one.info.device)) << one.filter;
  }
  EXPECT_EQ(all.front().filter, "cuda:gpu:0");
  EXPECT_EQ(all.back().filter, "host:cpu:0");
  EXPECT_EQ(all.back().driver, "host");
}

TEST(Filter, OfSimulatedDevicesFollowsThem) {
  const auto sim = make_sim_driver({.devices = 0});
  DriverRegistry registry;
  registry.add(sim);
  const std::uint64_t before = registry.devices_version();
  EXPECT_THROW(select_device(registry, "gpu"), NotFoundError);
  sim->set_devices(3);
  EXPECT_NE(registry.devices_version(), before);
  EXPECT_EQ(to_string(select_device(registry, "sim:2")), "ext_dev:2");
  EXPECT_EQ(to_string(select_device(registry, "gpu:1")), "ext_dev:1");
}

}  // namespace
}  // namespace crossdock::device
