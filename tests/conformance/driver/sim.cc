#include "device/sim.h"

#include <chrono>

#include "conformance/driver/driver_conformance.h"

namespace crossdock::device {

namespace {

/// Native queues and events are those of the one driver that the case's test asked for last.
DriverCase simulated(const char* name, std::chrono::nanoseconds delay) {
  const auto driver = std::make_shared<std::weak_ptr<SimDriver>>();
  return {
      .name = name,
      .make =
          [driver, delay] {
            const auto made = make_sim_driver({.devices = 2, .delay = delay});
            *driver = made;
            return made;
          },
      .kinds = {MemoryKind::kDevice, MemoryKind::kHost, MemoryKind::kShared},
      .exportable = {MemoryKind::kDevice, MemoryKind::kHost, MemoryKind::kShared},
      .make_native_queue =
          [driver] {
            const Queue queue = driver->lock()->open({.type = DeviceType::kExtDev, .id = 0})->make_queue();
            return std::shared_ptr<void>(queue.native(), [queue](void*) {});
          },
      .make_native_event =
          [driver] {
            const auto context = driver->lock()->open({.type = DeviceType::kExtDev, .id = 1});
            const Event event = context->record(context->make_queue());
            return std::shared_ptr<void>(event.native(), [event](void*) {});
          },
      .asynchronous = true,
      .import_writable = true,
      .device_of = nullptr,
  };
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Sim, DriverConformance,
                         ::testing::Values(simulated("sim", {}),
                                           simulated("sim_with_delay", std::chrono::milliseconds(2))),
                         [](const auto& test) { return test.param.name; });

}  // namespace crossdock::device
