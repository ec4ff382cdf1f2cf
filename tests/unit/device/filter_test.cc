#include "crossdock/device/registry.h"

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "device/sim.h"
#include "support/message_of.h"
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
  std::shared_ptr<Context> open(const Device&, NativeContext) override { throw UnsupportedError("opens nothing"); }

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
  const int asked = cuda_->asked;
  EXPECT_EQ(chosen("level_zero"), "oneapi:1");
  EXPECT_EQ(cuda_->asked, asked) << "a word of SYCL's is no other driver's";
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
                                 "gpu,fpga",
                                 "fpga,gpu",
                                 "sycl:fpga",
                                 "gpu:fpga",
                                 "unknown:cpu:0",
                                 "open-cl",
                                 "_cuda",
                                 "cudA",
                                 "1cuda",
                                 "gpu:99999999999999999999",
                                 "1:",
                                 "cuda:gpu:1:",
                                 "\xff"}) {
    const std::string what = message_of<InvalidArgumentError>([&] { select_device(registry_, text); });
    const std::string shown = text == "\xff" ? "\\xff" : text;
    EXPECT_THAT(what, AllOf(HasSubstr("\"" + shown + "\" is not a filter string"), HasSubstr("opencl:cpu:0"))) << text;
  }
}

TEST_F(FilterTest, SaysWhichBackendsThereAre) {
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { chosen("gpu,rocm:gpu:0"); }),
      AllOf(HasSubstr("\"rocm\" is not a backend"), HasSubstr("host, cuda, sycl, sim, opencl, level_zero, hip)")));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { chosen("cuda:gpuu:0"); }),
              HasSubstr("\"gpuu\" is not a device type"));
  EXPECT_EQ(sycl_->asked, 0);
}

TEST_F(FilterTest, ADriverThatAProgramAddsIsABackend) {
  EXPECT_THROW(chosen("rocm"), InvalidArgumentError);
  registry_.add(
      std::make_shared<ManyDevices>("rocm", std::vector{made(DeviceType::kRocm, 0, DeviceClass::kGpu, "hip"),
                                                        made(DeviceType::kRocm, 1, DeviceClass::kGpu, "hip")}));
  EXPECT_EQ(chosen("rocm"), "rocm:0");
  EXPECT_EQ(chosen("rocm:gpu:1"), "rocm:1");
  EXPECT_EQ(chosen("gpu:5"), "rocm:1");
  EXPECT_THROW(chosen("hip"), NotFoundError) << "SYCL's word, and SYCL has none";
}

TEST(Filter, AnyWordMayBeABackend) {
  EXPECT_EQ(parse_filter("a1_b:gpu:2").front().backend, "a1_b");
  EXPECT_EQ(parse_filter(std::string(64, 'x')).front().backend, std::string(64, 'x'));
  EXPECT_THROW(parse_filter(std::string(65, 'x')), InvalidArgumentError);
  EXPECT_EQ(parse_filter("gpu").front().backend, "");
}

TEST_F(FilterTest, AmongOneDriversDevicesBackendsAreWhatItReachesThemBy) {
  EXPECT_EQ(to_string(select_device(*sycl_, "cuda")), "oneapi:0");
  EXPECT_EQ(to_string(select_device(*sycl_, "gpu:1")), "oneapi:1");
  EXPECT_EQ(to_string(select_device(*sycl_, "sycl:gpu:1")), "oneapi:1");
  EXPECT_EQ(to_string(select_device(*sycl_, "hip,opencl")), "oneapi:2");
  EXPECT_THROW(select_device(*sycl_, "hip"), NotFoundError);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { select_device(*sycl_, "gpu,fpga"); }),
              AllOf(HasSubstr("\"fpga\" is not a backend"), HasSubstr("sycl, cuda, level_zero, opencl, hip")));
  const ManyDevices other("other", std::vector{made(DeviceType::kVulkan, 0, DeviceClass::kGpu, "vulkan")});
  EXPECT_EQ(to_string(select_device(other, "vulkan:gpu:0")), "vulkan:0");
  EXPECT_EQ(to_string(select_device(other, "other:gpu:0")), "vulkan:0");
}

TEST_F(FilterTest, ListsDevicesInTheOrderThatNumbersCount) {
  const std::vector<NamedDevice> all = list_devices(registry_);
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(all.front().filter, "cuda:gpu:0");
  EXPECT_EQ(all.back().filter, "host:cpu:0");
  EXPECT_EQ(all.back().driver, "host");
}

/// The drivers of a registry, in order; one with an empty list of devices isn't there.
using Drivers = std::vector<std::pair<std::string, std::vector<DeviceInfo>>>;

struct Arrangement {
  std::string name;
  Drivers drivers;
  std::vector<std::string> filters;  ///< In the order of list_devices().
};

/// For the framework, which else prints bytes.
void PrintTo(const Arrangement& one, std::ostream* out) { *out << one.name; }

DeviceInfo of_sycl(std::int64_t id, DeviceClass device_class, std::string backend) {
  return made(DeviceType::kOneApi, id, device_class, std::move(backend));
}

std::vector<Arrangement> arrangements() {
  constexpr DeviceClass kCpu = DeviceClass::kCpu;
  constexpr DeviceClass kGpu = DeviceClass::kGpu;
  const std::vector host = {made(DeviceType::kCpu, -1, kCpu, "host")};
  const std::vector cuda = {made(DeviceType::kCuda, 0, kGpu, "cuda"), made(DeviceType::kCuda, 1, kGpu, "cuda")};
  const std::vector mixed = {of_sycl(0, kGpu, "level_zero"), of_sycl(1, kGpu, "cuda"), of_sycl(2, kCpu, "opencl"),
                             of_sycl(3, kGpu, "level_zero"), of_sycl(4, kGpu, "cuda")};
  const std::vector rocm = {made(DeviceType::kRocm, 0, kGpu, "hip"), made(DeviceType::kRocm, 1, kGpu, "hip")};
  return {
      {.name = "CudaGpusFirst",
       .drivers = {{"host", host},
                   {"cuda", cuda},
                   {"sycl", {of_sycl(0, kGpu, "cuda"), of_sycl(1, kGpu, "level_zero"), of_sycl(2, kCpu, "opencl")}}},
       .filters = {"cuda:gpu:0", "cuda:gpu:1", "sycl:gpu:0", "level_zero:gpu:0", "opencl:cpu:0", "host:cpu:0"}},
      {.name = "LevelZeroGpusFirst",
       .drivers = {{"host", host}, {"cuda", cuda}, {"sycl", mixed}},
       .filters = {"cuda:gpu:0", "cuda:gpu:1", "level_zero:gpu:0", "sycl:gpu:1", "opencl:cpu:0", "level_zero:gpu:1",
                   "sycl:gpu:3", "host:cpu:0"}},
      {.name = "CudasDriverIsMissing",
       .drivers = {{"host", host}, {"cuda", {}}, {"sycl", mixed}},
       .filters = {"level_zero:gpu:0", "sycl:gpu:1", "opencl:cpu:0", "level_zero:gpu:1", "sycl:gpu:3", "host:cpu:0"}},
      {.name = "CudasDriverWasntLookedFor",
       .drivers = {{"sycl", mixed}},
       .filters = {"level_zero:gpu:0", "cuda:gpu:0", "opencl:cpu:0", "level_zero:gpu:1", "cuda:gpu:1"}},
      {.name = "BackendsOfSyclThatNobodyKnows",
       .drivers = {{"sycl",
                    {of_sycl(0, kCpu, "opencl"), of_sycl(1, kCpu, "unknown"), of_sycl(2, kCpu, "native_cpu"),
                     of_sycl(3, kCpu, "a_later_one"), of_sycl(4, kGpu, "hip"), of_sycl(5, kGpu, "unknown"),
                     of_sycl(6, kCpu, "Not a word"), of_sycl(7, kCpu, "gpu"), of_sycl(8, kCpu, "")}},
                   {"host", host}},
       .filters = {"opencl:cpu:0", "sycl:cpu:1", "sycl:cpu:2", "sycl:cpu:3", "hip:gpu:0", "sycl:gpu:1", "sycl:cpu:4",
                   "sycl:cpu:5", "sycl:cpu:6", "host:cpu:0"}},
      {.name = "AnotherDriverReachesDevicesByABackendOfSycls",
       .drivers = {{"rocm", rocm}, {"sycl", {of_sycl(0, kGpu, "hip")}}, {"host", host}},
       .filters = {"rocm:gpu:0", "rocm:gpu:1", "hip:gpu:0", "host:cpu:0"}},
      {.name = "AnotherDriverAfterSycl",
       .drivers = {{"host", host}, {"sycl", {of_sycl(0, kGpu, "hip"), of_sycl(1, kGpu, "cuda")}}, {"rocm", rocm}},
       .filters = {"hip:gpu:0", "cuda:gpu:0", "rocm:gpu:0", "rocm:gpu:1", "host:cpu:0"}},
      {.name = "AnotherDriverHasABackendOfSyclsForItsName",
       .drivers = {{"hip", rocm}, {"sycl", {of_sycl(0, kGpu, "opencl"), of_sycl(1, kGpu, "hip")}}},
       .filters = {"hip:gpu:0", "hip:gpu:1", "opencl:gpu:0", "sycl:gpu:1"}},
  };
}

class FilterArrangementTest : public ::testing::TestWithParam<Arrangement> {};

TEST_P(FilterArrangementTest, ListsEveryDeviceByAFilterThatChoosesIt) {
  DriverRegistry registry;
  for (const auto& [name, infos] : GetParam().drivers) {
    if (infos.empty()) {
      registry.add_missing(name, {"not found"});
    } else {
      registry.add(std::make_shared<ManyDevices>(name, infos));
    }
  }
  std::vector<std::string> filters;
  for (const NamedDevice& one : list_devices(registry)) {
    filters.push_back(one.filter);
    EXPECT_EQ(to_string(select_device(registry, one.filter)), to_string(one.info.device)) << one.filter;
    EXPECT_EQ(filter_of(registry, one.info.device), one.filter);
  }
  EXPECT_EQ(filters, GetParam().filters);
}

INSTANTIATE_TEST_SUITE_P(All, FilterArrangementTest, ::testing::ValuesIn(arrangements()),
                         [](const auto& param) { return param.param.name; });

TEST_F(FilterTest, OfADeviceAsksItsOwnDriverAlone) {
  EXPECT_EQ(filter_of(registry_, {.type = DeviceType::kOneApi, .id = 0}), "sycl:gpu:0");
  EXPECT_EQ(cuda_->asked + host_->asked, 0);
  EXPECT_EQ(filter_of(registry_, {.type = DeviceType::kOneApi, .id = 9}), "");
  EXPECT_EQ(filter_of(registry_, {.type = DeviceType::kRocm, .id = 0}), "");
}

TEST(Filter, NamesNoDeviceOfADriverWhoseNameIsNoBackend) {
  for (const std::string name : {"Rocm", "gpu", "my driver", "7", ""}) {
    DriverRegistry registry;
    registry.add(
        std::make_shared<ManyDevices>(name, std::vector{made(DeviceType::kRocm, 0, DeviceClass::kGpu, "hip")}));
    EXPECT_EQ(list_devices(registry).front().filter, "") << name;
    EXPECT_EQ(to_string(select_device(registry, "gpu:0")), "rocm:0") << name;
    EXPECT_THAT(message_of<NotFoundError>([&] { select_device(registry, "cpu"); }),
                HasSubstr("the devices are: rocm:0"));
  }
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
