# A layer is a target of its own, crossdock_<name>, with the sources of src/<name>/ and the layers under it.
# tools/check_includes.py holds the same table against the #include lines.

set(CROSSDOCK_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
                       -Wold-style-cast -Woverloaded-virtual)
# g++ 12 sees an overlap in `"text" + std::string` where there is none (GCC bug 105651, mended in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND CROSSDOCK_WARNINGS -Wno-restrict)
endif()

option(CROSSDOCK_PRECOMPILE "Precompile headers of the standard library, GoogleTest and nanobind (g++ alone)" OFF)
set(CROSSDOCK_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <condition_variable> <deque> <functional> <map> <memory> <mutex>
                             <optional> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector>)

set(CROSSDOCK_UNITY 1 CACHE STRING "How many C++ files of a target are compiled at once")

# crossdock_precompile(<target> <owner> <header>...): parses these headers once, for the owner and for all targets that name
# it, which have its options. They take a third of the time of most files. What a file forgets to include is still found:
# nothing but the development build is compiled like this.
function(crossdock_precompile target owner)
  if(NOT CROSSDOCK_PRECOMPILE)
    return()
  endif()
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # for ccache
endfunction()

# crossdock_compile_options(<target>): the warnings, the sanitizers, and how many files are compiled at once. Those share
# what they include and instantiate, and names in unnamed namespaces must differ in all files of a target.
function(crossdock_compile_options target)
  target_compile_options(${target} PRIVATE ${CROSSDOCK_WARNINGS})
  if(CROSSDOCK_UNITY GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${CROSSDOCK_UNITY}
                                               UNITY_BUILD_RELOCATABLE ON)  # CMake 4's compiler cache serves all trees
    # g++ sees headers here, because the files are included, and warns of members of types of an unnamed namespace.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
    # g++ 12 inlines other functions where files are compiled together, and then reports overflows that don't exist.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
    endif()
  endif()
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
  crossdock_precompile(crossdock_${name} crossdock_core ${CROSSDOCK_COMMON_HEADERS})
  foreach(layer IN LISTS ARG_LAYERS)
    target_link_libraries(crossdock_${name} PUBLIC crossdock_${layer})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY CROSSDOCK_LAYERS crossdock_${name})
endfunction()

# crossdock_test(<layer> SOURCES <file>... [LIBRARIES <target>...] [PARAMETERS <name>...] [LONG <pattern>...]): one
# GoogleTest program per layer, each case a ctest. LONG: cases that take seconds, which have the label `long`. PARAMETERS:
# names of a suite's parameters whose cases are one ctest in one process, because the process costs more than most cases.
function(crossdock_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;PARAMETERS;LONG" ${ARGN})
  add_executable(${name}_tests ${ARG_SOURCES})
  target_link_libraries(${name}_tests PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_include_directories(${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  crossdock_compile_options(${name}_tests)
  # Test code is compiled once and run once: unoptimised it takes less than half the time, and the library under it is
  # optimised.
  target_compile_options(${name}_tests PRIVATE -O0 -g1)
  crossdock_precompile(${name}_tests core_tests ${CROSSDOCK_COMMON_HEADERS} <gmock/gmock.h>)
  set(elsewhere ${ARG_LONG})
  list(JOIN ARG_LONG ":" long)
  foreach(parameter IN LISTS ARG_PARAMETERS)
    add_test(NAME ${name}.${parameter} COMMAND ${name}_tests --gtest_brief=1 "--gtest_filter=*/${parameter}-${long}")
    # A parameter that doesn't exist is no success.
    set_tests_properties(${name}.${parameter} PROPERTIES TIMEOUT 300 FAIL_REGULAR_EXPRESSION "\\] 0 tests from")
    list(APPEND elsewhere "*/${parameter}")
  endforeach()
  list(JOIN elsewhere ":" elsewhere)
  gtest_discover_tests(${name}_tests TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 TEST_FILTER "*-${elsewhere}"
                       PROPERTIES TIMEOUT 120)
  if(ARG_LONG)
    gtest_discover_tests(${name}_tests TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 TEST_FILTER "${long}"
                         PROPERTIES TIMEOUT 120 LABELS long)
  endif()
endfunction()
