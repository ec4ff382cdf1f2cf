/* Compiles as C11, and twice over. */
#include "crossdock/array/c_abi.h"

#undef CROSSDOCK_ARRAY_C_ABI_H

#include <stddef.h>

_Static_assert(sizeof(struct ArrowSchema) == 72, "the layout of the C data interface on 64-bit machines");
_Static_assert(sizeof(struct ArrowArray) == 80, "the layout of the C data interface on 64-bit machines");
_Static_assert(sizeof(struct ArrowArrayStream) == 40, "the layout of the C stream interface on 64-bit machines");
_Static_assert(sizeof(struct ArrowDeviceArray) == 128, "the layout of the C device data interface");
_Static_assert(offsetof(struct ArrowDeviceArray, device_id) == 80, "the layout of the C device data interface");
_Static_assert(offsetof(struct ArrowDeviceArray, device_type) == 88, "the layout of the C device data interface");
_Static_assert(offsetof(struct ArrowDeviceArray, sync_event) == 96, "the layout of the C device data interface");
_Static_assert(offsetof(struct ArrowDeviceArray, reserved) == 104, "the layout of the C device data interface");
_Static_assert(sizeof(struct ArrowDeviceArrayStream) == 48, "the layout of the C device stream interface");

size_t crossdock_test_device_array_size_in_c(void);
size_t crossdock_test_device_array_size_in_c(void) { return sizeof(struct ArrowDeviceArray); }
