# What an install prefix holds: the library, the one for C, their headers, and the files by which CMake
# (find_package(crossdock)) and pkg-config find them. The prefix can be moved: no file in it names a place outside.
include(CMakePackageConfigHelpers)

set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/crossdock)
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS crossdock crossdock_c EXPORT crossdock-targets COMPONENT crossdock)
install(DIRECTORY include/crossdock ${PROJECT_BINARY_DIR}/include/crossdock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT crossdock FILES_MATCHING REGEX "[.](h|hpp)$")
if(CROSSDOCK_HAS_FLIGHT)
  install(TARGETS crossdock_flight_module COMPONENT crossdock
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${CROSSDOCK_MODULE_FOLDER})
endif()

install(EXPORT crossdock-targets NAMESPACE crossdock:: DESTINATION ${cmake_folder} COMPONENT crossdock)
configure_package_config_file(cmake/crossdock-config.cmake.in ${PROJECT_BINARY_DIR}/crossdock-config.cmake
                              INSTALL_DESTINATION ${cmake_folder})
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/crossdock-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/crossdock-config.cmake ${PROJECT_BINARY_DIR}/crossdock-config-version.cmake
        DESTINATION ${cmake_folder} COMPONENT crossdock)

# Some distributions give absolute folders: then these are in the .pc files, and the prefix can't be moved.
file(RELATIVE_PATH CROSSDOCK_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" CROSSDOCK_PC_TO_PREFIX "${CROSSDOCK_PC_TO_PREFIX}")
foreach(folder LIBDIR INCLUDEDIR)
  set(CROSSDOCK_PC_${folder} "\${prefix}")
  cmake_path(APPEND CROSSDOCK_PC_${folder} ${CMAKE_INSTALL_${folder}})
endforeach()
# pkg-config wants these packages to be there even for --cflags, and a program needs them for the static library alone.
set(CROSSDOCK_PC_REQUIRES "")
if(NOT BUILD_SHARED_LIBS)
  set(CROSSDOCK_PC_REQUIRES " liblz4 libzstd libssl libcrypto")
endif()
foreach(name crossdock crossdock_c)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${pkgconfig_folder} COMPONENT crossdock)
endforeach()
