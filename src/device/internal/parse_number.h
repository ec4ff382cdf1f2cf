#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace crossdock::device {

/// Returns the number that `text` is in decimal, with no other characters. Returns nothing for any other text, or for a
/// number that the type can't hold.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) noexcept {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace crossdock::device
