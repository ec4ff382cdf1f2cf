/* Compiles as C11, and twice over. The numbers are DLPack's. */
#include "crossdock/array/dlpack_abi.h"

_Static_assert(sizeof(DLDevice) == 8, "the layout of DLPack");
_Static_assert(sizeof(DLDataType) == 4, "the layout of DLPack");
_Static_assert(sizeof(DLTensor) == 48, "the layout of DLPack");
_Static_assert(offsetof(DLTensor, shape) == 24, "the layout of DLPack");
_Static_assert(offsetof(DLTensor, byte_offset) == 40, "the layout of DLPack");
_Static_assert(sizeof(DLManagedTensor) == 64, "the layout of DLPack");
_Static_assert(offsetof(DLManagedTensor, deleter) == 56, "the layout of DLPack");
_Static_assert(sizeof(DLManagedTensorVersioned) == 80, "the layout of DLPack");
_Static_assert(offsetof(DLManagedTensorVersioned, flags) == 24, "the layout of DLPack");
_Static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32, "the layout of DLPack");
_Static_assert(sizeof(DLPackExchangeAPI) == 56, "the layout of DLPack");

size_t crossdock_test_versioned_size_in_c(void);
size_t crossdock_test_versioned_size_in_c(void) { return sizeof(DLManagedTensorVersioned); }
