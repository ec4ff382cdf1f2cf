#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

/// Functions for text from other processes or users: to validate it, to shorten it, and to show it safely on terminals
/// and in logs.
namespace crossdock {

/// Returns how many bytes the UTF-8 character at the start of `text` takes; 0 if there is no valid one: a stray or
/// missing continuation byte, an overlong form, a surrogate, a code point beyond U+10FFFF.
std::size_t utf8_character(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

/// Returns whether the name of something published is text: UTF-8 without NUL bytes, and not empty. A name may have any
/// bytes, and those of others are shown and listed as bytes.
bool is_text_name(std::string_view name) noexcept;

/// Returns at most `limit` bytes of `text`, cut between characters; every byte that isn't UTF-8 becomes '?'.
std::string bounded_utf8(std::string_view text, std::size_t limit);

/// Returns `text` with line ends and tabs as \n, \r and \t, other control characters of ASCII, and bytes that aren't
/// UTF-8, as \xNN, and other characters that have no shape as \uNNNN or \UNNNNNNNN: the control characters from U+0080
/// on, which terminals obey too, those that change the order of text, separators of lines, and invisible ones.
std::string printable(std::string_view text);

/// The most bytes of foreign text (a name, a URI, a path) that one place in an error message shows.
inline constexpr std::size_t kMostShown = 200;
/// The same for a file's path, whose end is what tells it from others.
inline constexpr std::size_t kMostPath = 1024;
/// The same for the text of another's error, which says more than a name.
inline constexpr std::size_t kMostErrorText = 4096;

/// For error messages, as all foreign text in them: returns at most `limit` bytes of `text`, printable, cut between
/// characters. If it was cut, its size follows, as in "abc... (1048576 bytes)".
std::string excerpt(std::string_view text, std::size_t limit = kMostShown);

/// The same in single quotes, with quotes and backslashes as \xNN.
std::string shown(std::string_view text, std::size_t limit = kMostShown);

/// The same for the text of another's error in this process, which may have several lines: cut, and not escaped.
std::string shortened(std::string_view text, std::size_t limit = kMostErrorText);

/// For error messages: returns the first three names, separated by commas, and how many more there are.
std::string first_names(std::span<const std::string> names);

/// Returns `text` with every byte as %XX (RFC 3986, section 2.1), except ASCII letters, digits and the characters of
/// `plain`.
std::string percent_encoded(std::string_view text, std::string_view plain);

}  // namespace crossdock
