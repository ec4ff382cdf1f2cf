#pragma once

#include <cstdint>
#include <optional>
#include <string>

/// The memory limits of the control groups (cgroups) that a process is in: a container's, or a service's. The kernel
/// kills a process that touches a page beyond a limit, so code that needs much memory checks the limits first.
namespace crossdock {

/// The memory that a cgroup leaves to its processes.
struct MemoryRoom {
  std::string cgroup;           ///< Its path, as in /proc/self/cgroup.
  std::uint64_t limit = 0;      ///< Bytes.
  std::uint64_t available = 0;  ///< Bytes: the limit minus the used memory, plus droppable caches and free swap.
};

/// The files that the limits are read from; tests have trees of their own.
struct MemoryLimitFiles {
  std::string process = "/proc/self";  ///< A folder with `cgroup` and `mountinfo`.
  std::string root = {};               ///< A prefix of each mount point.
  std::uint64_t free_swap = 0;         ///< The machine's free swap, in bytes.
};

/// Returns the room of the cgroup that leaves the least: this process's own cgroup or one above it, of version 1 or 2.
/// Returns nothing if there is no limit, or none that can be read. Throws only if memory runs out.
std::optional<MemoryRoom> memory_room(const MemoryLimitFiles& files);

/// Throws ResourceError if `size` bytes of memory, which are about to be touched, are more than a cgroup leaves. `what`
/// names the use of the memory in the error. Cheap for small sizes: reads the limits only once about a quarter of the
/// room found last, at most 256 MiB, has been asked for. Other processes may use memory meanwhile, so success
/// guarantees nothing. Thread-safe.
void check_memory_room(std::uint64_t size, const char* what);

}  // namespace crossdock
