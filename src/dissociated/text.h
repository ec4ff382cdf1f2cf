#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Text from elsewhere: told apart from garbage, cut, and shown safely.
namespace crossdock::dissociated {

/// How many bytes the UTF-8 character at the start of `text` takes; 0 if there is none: a stray or missing continuation
/// byte, an overlong form, a surrogate, a code point beyond U+10FFFF.
std::size_t utf8_character(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

/// At most `limit` bytes of `text`, cut between characters; every byte that isn't UTF-8 becomes '?'.
std::string bounded_utf8(std::string_view text, std::size_t limit);

/// For error messages: at most `limit` bytes, control characters and quotes as \xNN, and "..." where it was cut.
std::string shown(std::string_view text, std::size_t limit = 200);

}  // namespace crossdock::dissociated
