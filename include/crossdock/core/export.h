#pragma once

#if __cplusplus < 202002L
#error "Crossdock's headers are C++20: compile with -std=c++20, or by way of CMake's crossdock::crossdock"
#endif

/// Marks the symbols that the installed library exports. All others are hidden (the library is built with
/// -fvisibility=hidden).
#define CROSSDOCK_EXPORT __attribute__((visibility("default")))
