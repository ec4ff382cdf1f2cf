// error: use of deleted function|cannot convert|could not convert|no matching
#include "crossdock/device/queue.h"

#ifdef WRONG
crossdock::device::Event event(void* pointer) { return {pointer, nullptr}; }
#else
crossdock::device::Event event(void* pointer) { return {crossdock::device::NativeEvent(pointer), nullptr}; }
#endif
