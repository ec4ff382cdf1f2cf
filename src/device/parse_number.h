#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace crossdock::device {

/// A text that is a decimal number and nothing else; nothing for any other, or one beyond the type.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) noexcept {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace crossdock::device
