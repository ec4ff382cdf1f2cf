#include "dissociated/internal/base64.h"

#include <cstdint>

namespace crossdock::dissociated {
namespace {

/// Returns the six bits of a character; -1 if it is in neither alphabet.
int digit_of(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '-' || c == '+') return 62;
  if (c == '_' || c == '/') return 63;
  return -1;
}

}  // namespace

std::optional<std::vector<std::byte>> base64_decode(std::string_view text, std::string* reason) {
  std::size_t padding = 0;
  while (!text.empty() && text.back() == '=') {
    text.remove_suffix(1);
    ++padding;
  }
  if (text.size() % 4 == 1 || (padding != 0 && (text.size() + padding) % 4 != 0) || padding > 2) {
    *reason = std::to_string(text.size()) + " characters and " + std::to_string(padding) +
              " of padding aren't a whole number of bytes";
    return std::nullopt;
  }
  std::vector<std::byte> out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = digit_of(text[i]);
    if (digit < 0) {
      *reason = "character " + std::to_string(i + 1) + " of it isn't in a base64 alphabet";
      return std::nullopt;
    }
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<std::byte>(bits >> count));
    }
  }
  if ((bits & ((1u << count) - 1)) != 0) {
    *reason = "its last character has extra bits: it was truncated or changed";
    return std::nullopt;
  }
  return out;
}

}  // namespace crossdock::dissociated
