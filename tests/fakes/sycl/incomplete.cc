#include "device/sycl/api.h"

// Every function that the driver needs, by name alone: nobody calls them. One isn't exported (exports.map).
#define CROSSDOCK_SYCL_STUB(member, name, result, parameters) \
  extern "C" void stub_##member() asm(name);                  \
  extern "C" void stub_##member() {}
CROSSDOCK_SYCL_FUNCTIONS(CROSSDOCK_SYCL_STUB)
