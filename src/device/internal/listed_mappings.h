#pragma once

#include <memory>

#include "device/region.h"

/// The list of mappings behind changing_memory.h and private_memory.h. Thread-safe, and usable in a forked child.
namespace crossdock::device::listed {

/// Adds the mapping of a kRecycled or kFile region, or a private mapping of `source`. `start` must not be listed yet.
/// Throws std::bad_alloc, and then it isn't listed.
void add(const void* start, std::uint64_t size, RegionKind kind, const std::weak_ptr<const Region>& source = {});
/// Sets the region that a listed mapping is of, if that can be passed on: it has a descriptor.
void set_source(const void* start, const std::weak_ptr<const Region>& source) noexcept;
/// Adds memory of this process alone.
void add_own(const void* start, std::uint64_t size);
/// Removes a mapping. Call it before the memory is unmapped. Does nothing if the mapping isn't listed.
void remove(const void* start) noexcept;

}  // namespace crossdock::device::listed
