#pragma once

#include <cstdint>

/// The list of mappings behind changing_memory.h. Thread-safe, and usable in a forked child.
namespace crossdock::device::changing {

enum class Content : std::uint8_t {
  kRecycled,  ///< Not mapped in forked children.
  kFile,
};

/// Adds a mapping. `start` must not be listed yet. Throws std::bad_alloc, and then it isn't listed.
void add(const void* start, std::uint64_t size, Content content);
/// Removes a mapping. Call it before the memory is unmapped. Does nothing if the mapping isn't listed.
void remove(const void* start) noexcept;

}  // namespace crossdock::device::changing
