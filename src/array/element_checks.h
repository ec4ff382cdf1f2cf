#pragma once

#include <cstddef>
#include <cstdint>

#include "crossdock/array/type.h"

namespace crossdock::array {

// Loops over the elements of one buffer, at any alignment. Each finds whether anything is wrong without a branch for an
// element, so that it runs as fast as memory is read; who gets false looks for the element that it is.

/// True if `n` numbers are not negative and none is less than the one before.
bool are_ordered32(const std::byte* numbers, std::int64_t n) noexcept;
bool are_ordered64(const std::byte* numbers, std::int64_t n) noexcept;

/// True if every one of `n` integers of this type (one of the eight) is at least 0 and less than `limit`.
bool are_below(TypeId type, const std::byte* numbers, std::int64_t n, std::int64_t limit) noexcept;

/// True if every one of `n` int64 is a multiple of `of`.
bool are_multiples64(const std::byte* numbers, std::int64_t n, std::int64_t of) noexcept;

/// True if `n` run ends of this type are above 0 and each is above the one before.
bool are_run_ends(TypeId type, const std::byte* ends, std::int64_t n) noexcept;

/// True if each of `n` lists, from an offset and with a size, lies within `length` elements.
bool are_lists32(const std::byte* offsets, const std::byte* sizes, std::int64_t n, std::int64_t length) noexcept;
bool are_lists64(const std::byte* offsets, const std::byte* sizes, std::int64_t n, std::int64_t length) noexcept;

}  // namespace crossdock::array
