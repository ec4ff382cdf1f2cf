#include "support/cuda.h"
#include "conformance/driver/driver_conformance.h"

namespace crossdock::device {

namespace {

using crossdock::testing::Cuda;

/// `delay_us`: how long each piece of work takes at least, on the fake.
DriverCase cuda_case(const std::string& name, const std::string& target, std::uint64_t delay_us = 0) {
  // The suite's device is the first; CUDA's primary context is the one that the driver opens it in.
  const auto with_context = [target](auto make) {
    auto cuda = std::make_shared<Cuda>(target);
    void* context = nullptr;
    cuda->run("cuDevicePrimaryCtxRetain", &context, 0);
    cuda->run("cuCtxPushCurrent_v2", context);
    std::shared_ptr<void> made = make(cuda);
    cuda->run("cuCtxPopCurrent_v2", &context);
    return made;
  };
  return {
      .name = name,
      .make =
          [target, delay_us] {
            std::string why_not;
            std::shared_ptr<Driver> driver = crossdock::testing::make_cuda_target(target, why_not);
            if (target == "Fake") Cuda(target).control("crossdockCudaFakeSetDelay", delay_us);
            return driver;
          },
      .kinds = {MemoryKind::kDevice, MemoryKind::kHost, MemoryKind::kShared},
      .exportable = {MemoryKind::kDevice},
      .make_native_queue =
          [with_context] {
            return with_context([](const std::shared_ptr<Cuda>& cuda) {
              return std::shared_ptr<void>(cuda->make_stream(), [cuda](void* stream) {
                cuda->run("cuStreamDestroy_v2", stream);
                cuda->run("cuDevicePrimaryCtxRelease_v2", 0);
              });
            });
          },
      .make_native_event =
          [with_context] {
            return with_context([](const std::shared_ptr<Cuda>& cuda) {
              void* event = nullptr;
              cuda->run("cuEventCreate", &event, 2u);
              return std::shared_ptr<void>(new void*(event), [cuda](void* native) {
                cuda->run("cuEventDestroy_v2", *static_cast<void**>(native));
                cuda->run("cuDevicePrimaryCtxRelease_v2", 0);
                delete static_cast<void**>(native);
              });
            });
          },
      .asynchronous = true,
      .import_writable = true,
      .device_of =
          [](MemoryKind kind, const Device& device) {
            const DeviceType type = kind == MemoryKind::kHost     ? DeviceType::kCudaHost
                                    : kind == MemoryKind::kShared ? DeviceType::kCudaManaged
                                                                  : DeviceType::kCuda;
            return Device{.type = type, .id = device.id};
          },
      .optional = target == "Gpu",
  };
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Cuda, DriverConformance,
                         ::testing::Values(cuda_case("cuda_fake", "Fake"),
                                           cuda_case("cuda_fake_with_delay", "Fake", 2000), cuda_case("cuda", "Gpu")),
                         [](const auto& test) { return test.param.name; });

}  // namespace crossdock::device
