#pragma once

#include <cstddef>
#include <cstdint>

namespace crossdock::array {

/// True if no byte has its high bit set.
bool is_ascii(const std::byte* data, std::int64_t size) noexcept;

/// True if the bytes are UTF-8 according to RFC 3629: no surrogates, nothing over U+10FFFF, no overlong forms, nothing
/// cut off at the end.
bool is_utf8(const std::byte* data, std::int64_t size) noexcept;

/// True for a byte that can't be the first of a character.
constexpr bool is_continuation(std::byte byte) noexcept { return (byte & std::byte{0xc0}) == std::byte{0x80}; }

}  // namespace crossdock::array
