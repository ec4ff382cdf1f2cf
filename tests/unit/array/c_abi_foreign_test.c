/* Another project's header came first, under the canonical guards: ours must leave its structures alone and add the
 * rest. */
#include <stddef.h>
#include <stdint.h>

#define ARROW_C_DATA_INTERFACE
struct ArrowSchema {
  int foreign_schema;
};
struct ArrowArray {
  int foreign_array;
};

#define ARROW_C_DEVICE_DATA_INTERFACE
typedef int32_t ArrowDeviceType;
struct ArrowDeviceArray {
  int foreign_device_array;
};

#include "crossdock/array/c_abi.h"

_Static_assert(sizeof(struct ArrowArray) == sizeof(int), "the first definition holds");
_Static_assert(sizeof(struct ArrowDeviceArray) == sizeof(int), "the first definition holds");
_Static_assert(sizeof(struct ArrowArrayStream) == 40, "what was missing is added");

size_t crossdock_test_foreign_array_size(void);
size_t crossdock_test_foreign_array_size(void) { return sizeof(struct ArrowArray); }
