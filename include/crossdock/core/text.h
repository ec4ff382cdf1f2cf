#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "crossdock/core/export.h"

/// Text from elsewhere: told apart from garbage, cut, and shown safely on terminals and in logs.
namespace crossdock {

/// How many bytes the UTF-8 character at the start of `text` takes; 0 if there is none: a stray or missing continuation
/// byte, an overlong form, a surrogate, a code point beyond U+10FFFF.
CROSSDOCK_EXPORT std::size_t utf8_character(std::string_view text) noexcept;

CROSSDOCK_EXPORT bool is_utf8(std::string_view text) noexcept;

/// At most `limit` bytes of `text`, cut between characters; every byte that isn't UTF-8 becomes '?'.
CROSSDOCK_EXPORT std::string bounded_utf8(std::string_view text, std::size_t limit);

/// `text` with line ends and tabs as \n, \r and \t, and other control characters, and bytes that aren't UTF-8, as \xNN.
CROSSDOCK_EXPORT std::string printable(std::string_view text);

/// For error messages: `text` in single quotes, printable, at most `limit` bytes of it, with quotes and backslashes as
/// \xNN, and "..." where it was cut.
CROSSDOCK_EXPORT std::string shown(std::string_view text, std::size_t limit = 200);

/// Appends `text` to `*out`. Every byte becomes %XX (RFC 3986, section 2.1), except ASCII letters, digits and the
/// characters of `plain`.
CROSSDOCK_EXPORT void append_percent_encoded(std::string_view text, std::string_view plain, std::string* out);

}  // namespace crossdock
