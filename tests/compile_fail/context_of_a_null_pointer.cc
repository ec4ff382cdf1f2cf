// error: use of deleted function
#include "crossdock/device/registry.h"

#ifdef WRONG
auto open(const crossdock::device::DriverRegistry& drivers) { return drivers.context({}, nullptr); }
#else
auto open(const crossdock::device::DriverRegistry& drivers) {
  return drivers.context({}, crossdock::device::NativeContext());
}
#endif
