# A layer is a target of its own, crossdock_<name>, with the sources of src/<name>/ and the layers under it.
# tools/check_includes.py holds the same table against the #include lines.

set(CROSSDOCK_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
                       -Wold-style-cast -Woverloaded-virtual)
# g++ 12 sees an overlap in `"text" + std::string` where there is none (GCC bug 105651, mended in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND CROSSDOCK_WARNINGS -Wno-restrict)
endif()

function(crossdock_compile_options target)
  target_compile_options(${target} PRIVATE ${CROSSDOCK_WARNINGS})
  if(CROSSDOCK_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${CROSSDOCK_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${CROSSDOCK_SANITIZE})
  endif()
endfunction()

# crossdock_layer(<name> SOURCES <file>... [LAYERS <layer>...])
function(crossdock_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LAYERS" ${ARGN})
  add_library(crossdock_${name} STATIC ${ARG_SOURCES})
  target_include_directories(crossdock_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include
                                                     ${PROJECT_SOURCE_DIR}/src)
  crossdock_compile_options(crossdock_${name})
  foreach(layer IN LISTS ARG_LAYERS)
    target_link_libraries(crossdock_${name} PUBLIC crossdock_${layer})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY CROSSDOCK_LAYERS crossdock_${name})
endfunction()

# crossdock_test(<layer> SOURCES <file>... [LIBRARIES <target>...]): one GoogleTest program per layer, each case a ctest.
function(crossdock_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name}_tests ${ARG_SOURCES})
  target_link_libraries(${name}_tests PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_include_directories(${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  crossdock_compile_options(${name}_tests)
  # Test code is compiled once and run once: unoptimised it takes less than half the time, and the library under it is
  # optimised.
  target_compile_options(${name}_tests PRIVATE -O0 -g1)
  gtest_discover_tests(${name}_tests TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)
endfunction()
