#pragma once

#include "device/region.h"

/// The list of mappings behind changing_memory.h. Thread-safe, and usable in a forked child.
namespace crossdock::device::changing {

/// Adds a mapping of a kRecycled or kFile region. `start` must not be listed yet. Throws std::bad_alloc, and then it
/// isn't listed.
void add(const void* start, std::uint64_t size, RegionKind kind);
/// Removes a mapping. Call it before the memory is unmapped. Does nothing if the mapping isn't listed.
void remove(const void* start) noexcept;

}  // namespace crossdock::device::changing
