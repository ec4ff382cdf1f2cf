# CROSSDOCK_HAS_UCX: whether the ucx transport is built. It needs UCX's headers (1.13 or later); the library is opened at
# run time. Without the headers everything else is built, and the transport says why it isn't there.
option(CROSSDOCK_UCX "Build the ucx transport where UCX's headers are found" ON)

set(CROSSDOCK_HAS_UCX OFF)
if(CROSSDOCK_UCX)
  find_path(CROSSDOCK_UCX_INCLUDE ucp/api/ucp.h)
  if(CROSSDOCK_UCX_INCLUDE)
    set(CROSSDOCK_HAS_UCX ON)
  else()
    message(STATUS "UCX's headers were not found: building without the ucx transport. "
                   "On Debian and Ubuntu: apt-get install libucx-dev")
  endif()
endif()
