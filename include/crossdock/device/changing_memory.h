#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/core/export.h"

namespace crossdock::device {

/// Bytes from `pointer` to the end of the mapping that it lies in, if that is one of this process's regions whose
/// content another process can change after it was checked: recycled memory and files. Nothing for other memory.
/// Whoever derives a size from such memory bounds it by this. Thread-safe; takes a lock only while there are such
/// mappings.
CROSSDOCK_EXPORT std::optional<std::uint64_t> bytes_left_in_changing_memory(const void* pointer) noexcept;

/// Whether `pointer` lies in a mapping of a file, of one of this process's regions. Whoever can write to the file can
/// cut it off, and reading what is gone is SIGBUS: what must survive that has the system read it, whose calls fail with
/// EFAULT instead. Thread-safe; takes a lock only while there are mappings that can change.
CROSSDOCK_EXPORT bool in_mapped_file(const void* pointer) noexcept;

}  // namespace crossdock::device
