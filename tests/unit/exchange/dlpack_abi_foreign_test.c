/* Another project's dlpack.h came first: ours must leave its structures alone. */
#include <stddef.h>

#define DLPACK_DLPACK_H_
#define DLPACK_MAJOR_VERSION 1
typedef struct DLManagedTensorVersioned {
  int foreign;
} DLManagedTensorVersioned;

#include "crossdock/array/dlpack_abi.h"

_Static_assert(sizeof(DLManagedTensorVersioned) == sizeof(int), "the first definition holds");

size_t crossdock_test_foreign_versioned_size(void);
size_t crossdock_test_foreign_versioned_size(void) { return sizeof(DLManagedTensorVersioned); }
