#pragma once

#include <cstdint>
#include <optional>

namespace crossdock::device {

/// Returns the bytes from `pointer` to the end of its mapping, if the mapping is a region of this process whose content
/// another process can change after it was checked: recycled memory and files. Returns nothing for other memory. Code
/// that reads a size from such memory must limit the size by this. Thread-safe; takes a lock only while there are such
/// mappings.
std::optional<std::uint64_t> bytes_left_in_changing_memory(const void* pointer) noexcept;

/// Returns whether `pointer` lies in one of this process's regions that maps a file. A process that can write to the
/// file can also truncate it, and a read beyond its new end is SIGBUS. Code that must survive that reads by system
/// calls, which fail with EFAULT instead. Thread-safe; takes a lock only while there are mappings that can change.
bool in_mapped_file(const void* pointer) noexcept;

}  // namespace crossdock::device
