// error: use of deleted function
#include "crossdock/device/driver.h"

#ifdef WRONG
auto wrap(crossdock::device::Context& context) { return context.wrap_queue(nullptr, nullptr); }
#else
auto wrap(crossdock::device::Context& context) { return context.wrap_queue(crossdock::device::NativeQueue(), nullptr); }
#endif
