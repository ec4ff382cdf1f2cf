#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "crossdock/core/export.h"

/// The memory limits of the control groups (cgroups) that a process is in: a container's, or a service's. A process
/// that touches a page beyond one is killed, so what takes much memory asks first.
namespace crossdock {

/// What a cgroup leaves.
struct MemoryRoom {
  std::string cgroup;           ///< Its path, as /proc/self/cgroup has it.
  std::uint64_t limit = 0;      ///< Bytes.
  std::uint64_t available = 0;  ///< Bytes: the limit less what is used, caches that can be dropped and free swap added.
};

/// Where it is read; tests have trees of their own.
struct MemoryLimitFiles {
  std::string process = "/proc/self";  ///< A folder with `cgroup` and `mountinfo`.
  std::string root = {};               ///< What stands before each mount point.
  std::uint64_t free_swap = 0;         ///< Of the machine, bytes.
};

/// The cgroup of this process that leaves the least: its own or one above it, of version 1 or 2. Nothing where there is
/// no limit, or none that can be read. Doesn't throw but for memory.
CROSSDOCK_EXPORT std::optional<MemoryRoom> memory_room(const MemoryLimitFiles& files);

/// Throws ResourceError if `size` bytes of memory for `what`, which are about to be touched, are more than a cgroup
/// leaves. Looks only once in a while, the more often the less room there was: so small sizes may be asked for, too.
/// What is used by then may have changed: this finds what can't go well, and promises nothing. Thread-safe.
CROSSDOCK_EXPORT void check_memory_room(std::uint64_t size, const char* what);

}  // namespace crossdock
