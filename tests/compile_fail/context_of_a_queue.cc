// error: cannot convert|could not convert|no matching
#include "crossdock/device/registry.h"

#ifdef WRONG
auto queue(const crossdock::device::DriverRegistry& drivers, const crossdock::device::Queue& other) {
  return drivers.queue_in(other.device(), crossdock::device::NativeQueue(other.native()));
}
#else
auto queue(const crossdock::device::DriverRegistry& drivers, const crossdock::device::Queue& other) {
  return drivers.queue_in(other.device(), other.native_context());
}
#endif
