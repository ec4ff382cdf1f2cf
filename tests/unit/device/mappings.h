#pragma once

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/release.h"

namespace crossdock::testing {

/// Lines of /proc/self/maps that have `text` in them.
inline std::size_t mappings_of(const std::string& text) {
  wait_for_released();  // large ones go on a thread of the library's
  std::size_t count = 0;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    if (std::strstr(line, text.c_str()) != nullptr) ++count;
  }
  std::fclose(maps);
  return count;
}

}  // namespace crossdock::testing
