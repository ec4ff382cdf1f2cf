// error: use of deleted function
#include "crossdock/device/sycl.h"

#ifdef WRONG
crossdock::device::SyclQueueOptions options() { return {.native_device = 0}; }
#else
crossdock::device::SyclQueueOptions options() { return {.native_device = {}}; }
#endif
