#include "host_driver.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "crossdock/core/error.h"
#include "host_context.h"

namespace crossdock::device {

namespace {

class HostDriver final : public Driver {
 public:
  std::string_view name() const noexcept override { return "host"; }

  std::string version() const override {
    struct utsname system {};
    return ::uname(&system) == 0 ? std::string(system.sysname) + " " + system.release : "unknown";
  }

  std::vector<Device> devices() const override { return {Device{}}; }

  DeviceInfo info(const Device& device) const override {
    if (!handles(device.type)) throw NotFoundError("the host driver has no device " + to_string(device));
    struct sysinfo system {};
    const bool known = ::sysinfo(&system) == 0;
    return {.device = device,
            .device_class = DeviceClass::kCpu,
            .backend = "host",
            .name = "this machine's memory",
            .kinds = {MemoryKind::kHost},
            .memory = known ? std::uint64_t{system.totalram} * system.mem_unit : 0};
  }

  bool handles(DeviceType type) const noexcept override { return type == DeviceType::kCpu; }

  std::shared_ptr<Context> open(const Device& device, NativeContext native_context) override {
    if (!handles(device.type)) throw NotFoundError("the host driver has no device " + to_string(device));
    if (native_context) {
      throw UnsupportedError("the host driver has no native contexts; open the device without one");
    }
    return std::make_shared<HostContext>();
  }
};

}  // namespace

std::shared_ptr<Driver> make_host_driver() { return std::make_shared<HostDriver>(); }

}  // namespace crossdock::device
