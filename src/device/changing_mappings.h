#pragma once

#include <cstdint>

/// The mappings that changing_memory.h knows. Thread-safe, and whole in a forked child.
namespace crossdock::device::changing {

enum class Content : std::uint8_t {
  kRecycled,  ///< Not mapped in forked children.
  kFile,
};

/// `start` isn't listed yet. Throws std::bad_alloc, and then it isn't listed.
void add(const void* start, std::uint64_t size, Content content);
/// Before the memory is unmapped. Nothing happens if it isn't listed.
void remove(const void* start) noexcept;

}  // namespace crossdock::device::changing
