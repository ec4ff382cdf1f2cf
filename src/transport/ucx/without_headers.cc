// Stands in for the other sources of this folder where UCX's headers were missing when Crossdock was built.
#include "transport/ucx.h"

namespace crossdock::transport {

UcxReport find_ucx(const UcxOptions&) {
  return {.tried = {"this Crossdock was built without UCX's headers (libucx-dev)"}};
}

}  // namespace crossdock::transport
