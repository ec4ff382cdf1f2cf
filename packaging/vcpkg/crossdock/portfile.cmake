# The C++ library for vcpkg, as an overlay in this tree: vcpkg install crossdock --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DCROSSDOCK_BUILD_TESTS=OFF
    -DCROSSDOCK_BUILD_BENCH=OFF
    -DCROSSDOCK_FLIGHT=OFF
    -DCROSSDOCK_UCX=OFF
    -DCROSSDOCK_FABRIC=OFF
    "-DCROSSDOCK_FLATC=${CURRENT_HOST_INSTALLED_DIR}/tools/flatbuffers/flatc${VCPKG_HOST_EXECUTABLE_SUFFIX}"
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/crossdock)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
