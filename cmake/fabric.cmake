# CROSSDOCK_HAS_FABRIC: whether the fabric transport is built. It needs libfabric's headers (1.17 or later); the library
# is opened at run time. Without the headers everything else is built, and the transport says why it isn't there.
option(CROSSDOCK_FABRIC "Build the fabric transport where libfabric's headers are found" ON)

set(CROSSDOCK_HAS_FABRIC OFF)
if(CROSSDOCK_FABRIC)
  find_path(CROSSDOCK_FABRIC_INCLUDE rdma/fi_tagged.h)
  if(CROSSDOCK_FABRIC_INCLUDE)
    set(CROSSDOCK_HAS_FABRIC ON)
  else()
    message(STATUS "libfabric's headers were not found: building without the fabric transport. "
                   "On Debian and Ubuntu: apt-get install libfabric-dev")
  endif()
endif()
