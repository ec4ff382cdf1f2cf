#pragma once

#include <cstddef>
#include <cstdint>

#include "crossdock/array/schema.h"

namespace crossdock::array {

// Loops over the elements of one buffer, at any alignment. Each only finds whether there is an error, without a branch
// per element, so that it runs at the speed of memory. A caller that gets false then searches for the bad element.

/// True if `n` int32 or int64 are not negative and none is less than the one before.
template <typename Int>
bool are_ordered(const std::byte* numbers, std::int64_t n) noexcept;

/// True if all `n` integers of this type (one of the eight) are at least 0 and less than `limit`.
bool are_below(TypeId type, const std::byte* numbers, std::int64_t n, std::int64_t limit) noexcept;

/// True if all `n` int64 are multiples of `of`.
bool are_multiples64(const std::byte* numbers, std::int64_t n, std::int64_t of) noexcept;

/// True if `n` run ends of this type are above 0 and each is above the one before.
bool are_run_ends(TypeId type, const std::byte* ends, std::int64_t n) noexcept;

/// True if each of `n` lists, given by offset and size (int32 or int64), lies within `length` elements.
template <typename Int>
bool are_lists(const std::byte* offsets, const std::byte* sizes, std::int64_t n, std::int64_t length) noexcept;

}  // namespace crossdock::array
