#pragma once

#include <cstdint>

/// The mappings that bytes_left_in_changing_memory() knows. Thread-safe, and whole in a forked child.
namespace crossdock::device::changing {

/// `start` isn't listed yet. `in_children`: whether forked children have the mapping, too. Throws std::bad_alloc, and
/// then it isn't listed.
void add(const void* start, std::uint64_t size, bool in_children);
/// Before the memory is unmapped. Nothing happens if it isn't listed.
void remove(const void* start) noexcept;

}  // namespace crossdock::device::changing
