#pragma once

#include <cstdint>
#include <optional>
#include <string>

/// The memory that is left to a process: by the limits of the control groups (cgroups) that it is in (a container's, or
/// a service's), and by the machine. The kernel kills a process that touches a page beyond a limit, and some process,
/// perhaps another one, where the machine has no page left. So code that needs much memory checks what is left first.
namespace crossdock {

/// The memory that a cgroup, or the machine, leaves to a process.
struct MemoryRoom {
  std::string cgroup;           ///< Its path, as in /proc/self/cgroup; empty: the machine.
  std::uint64_t limit = 0;      ///< Bytes: the cgroup's limit, or the machine's memory.
  std::uint64_t available = 0;  ///< Bytes: the limit minus the used memory, plus droppable caches and free swap.
};

/// The files that the limits are read from; tests have trees of their own.
struct MemoryLimitFiles {
  std::string process = "/proc/self";  ///< A folder with `cgroup` and `mountinfo`.
  std::string root = {};               ///< A prefix of each mount point, and of /proc/meminfo.
  std::uint64_t free_swap = 0;         ///< The machine's free swap, in bytes.
};

/// Returns the least room: of this process's own cgroup, of version 1 or 2, of one above it, or of the machine. Returns
/// nothing if none of them can be read. Throws only if memory runs out.
std::optional<MemoryRoom> memory_room(const MemoryLimitFiles& files);

/// Throws ResourceError if `size` bytes of memory, which are about to be touched, are more than is left. `what`
/// names the use of the memory in the error. Cheap for small sizes: reads the limits only once about a quarter of the
/// room found last, at most 256 MiB, has been asked for. Other processes may use memory meanwhile, so success
/// guarantees nothing. Thread-safe.
void check_memory_room(std::uint64_t size, const char* what);

}  // namespace crossdock
