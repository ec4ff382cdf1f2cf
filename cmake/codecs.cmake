# crossdock_codecs: the libraries that compressed bodies need, LZ4 (frames) and Zstandard. A program that is
# linked with an installed static libcrossdock finds its own: crossdock-config.cmake.in, crossdock.pc.in.
option(CROSSDOCK_STATIC_CODECS "Link LZ4 and Zstandard as static libraries (as wheels do)" OFF)

find_path(CROSSDOCK_LZ4_INCLUDE lz4frame.h)
find_path(CROSSDOCK_ZSTD_INCLUDE zstd.h)
if(CROSSDOCK_STATIC_CODECS)
  find_library(CROSSDOCK_LZ4_STATIC_LIBRARY liblz4.a)
  find_library(CROSSDOCK_ZSTD_STATIC_LIBRARY libzstd.a)
  set(lz4 ${CROSSDOCK_LZ4_STATIC_LIBRARY})
  set(zstd ${CROSSDOCK_ZSTD_STATIC_LIBRARY})
else()
  find_library(CROSSDOCK_LZ4_LIBRARY lz4)
  find_library(CROSSDOCK_ZSTD_LIBRARY zstd)
  set(lz4 ${CROSSDOCK_LZ4_LIBRARY})
  set(zstd ${CROSSDOCK_ZSTD_LIBRARY})
endif()
set(advice "On Debian and Ubuntu: apt-get install liblz4-dev libzstd-dev. On Fedora: dnf install lz4-devel libzstd-devel")
if(CROSSDOCK_STATIC_CODECS)
  string(APPEND advice ". Where only the shared libraries are there, build with -DCROSSDOCK_STATIC_CODECS=OFF, or with "
                       "pip install -C cmake.define.CROSSDOCK_STATIC_CODECS=OFF")
endif()
foreach(found CROSSDOCK_LZ4_INCLUDE CROSSDOCK_ZSTD_INCLUDE lz4 zstd)
  if(NOT ${found})
    message(FATAL_ERROR "Crossdock needs LZ4 and Zstandard, with their headers, to build (not found: ${found}). "
                        "${advice}")
  endif()
endforeach()

add_library(crossdock_codecs INTERFACE)
target_include_directories(crossdock_codecs SYSTEM INTERFACE ${CROSSDOCK_LZ4_INCLUDE} ${CROSSDOCK_ZSTD_INCLUDE})
target_link_libraries(crossdock_codecs INTERFACE ${lz4} ${zstd})
