# CROSSDOCK_HAS_FLIGHT: whether the module for Flight is built (crossdock_flight.so, loaded at run time). It needs gRPC for
# C++, and is the one file that is linked with it. Without gRPC everything else is built, and a Flight server says what is
# missing.
option(CROSSDOCK_FLIGHT "Build the module for Flight where gRPC is found" ON)

set(CROSSDOCK_HAS_FLIGHT OFF)
if(CROSSDOCK_FLIGHT)
  find_path(CROSSDOCK_GRPC_INCLUDE grpcpp/grpcpp.h)
  find_library(CROSSDOCK_GRPCXX_LIBRARY grpc++)
  find_library(CROSSDOCK_GRPC_LIBRARY grpc)
  find_library(CROSSDOCK_GPR_LIBRARY gpr)
  if(CROSSDOCK_GRPC_INCLUDE AND CROSSDOCK_GRPCXX_LIBRARY AND CROSSDOCK_GRPC_LIBRARY AND CROSSDOCK_GPR_LIBRARY)
    set(CROSSDOCK_HAS_FLIGHT ON)
  else()
    message(STATUS "gRPC for C++ was not found: building without the module for Flight. "
                   "On Debian and Ubuntu: apt-get install libgrpc++-dev")
  endif()
endif()

# Where the module is installed, below the folder of libcrossdock: each version that is installed has its own.
set(CROSSDOCK_MODULE_FOLDER crossdock-${CROSSDOCK_SOVERSION})
