// error: cannot convert|could not convert|no matching
#include "crossdock/device/driver.h"

#ifdef WRONG
auto wrap(crossdock::device::Context& context, void* event) {
  return context.wrap_queue(crossdock::device::NativeEvent(event), nullptr);
}
#else
auto wrap(crossdock::device::Context& context, void* stream) {
  return context.wrap_queue(crossdock::device::NativeQueue(stream), nullptr);
}
#endif
