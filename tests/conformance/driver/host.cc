#include "conformance/driver/driver_conformance.h"
#include "crossdock/device/registry.h"

namespace crossdock::device {

INSTANTIATE_TEST_SUITE_P(Host, DriverConformance,
                         ::testing::Values(DriverCase{
                             .name = "host",
                             .make = [] { return make_default_registry()->find("host"); },
                             .kinds = {MemoryKind::kHost},
                             .exportable = {MemoryKind::kHost},
                             .make_native_queue = nullptr,
                             .make_native_event = nullptr,
                             .asynchronous = false,
                             .import_writable = false,
                             .device_of = nullptr,
                         }));

}  // namespace crossdock::device
