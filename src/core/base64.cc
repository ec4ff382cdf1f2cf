#include "core/base64.h"

#include <cstdint>

namespace crossdock {
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

std::string to_base64(ByteSpan bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const std::byte byte : bytes) {
    bits = (bits << 8) | std::to_integer<std::uint32_t>(byte);
    for (count += 8; count >= 6; count -= 6) out += kAlphabet[(bits >> (count - 6)) & 63];
  }
  if (count > 0) out += kAlphabet[(bits << (6 - count)) & 63];
  return out;
}

Base64 from_base64(std::string_view text) {
  const auto wrong = [](std::string what) { return Base64{.wrong = std::move(what)}; };
  const std::size_t given = text.size();
  while (text.ends_with('=')) text.remove_suffix(1);
  const std::size_t padding = given - text.size();
  if (text.size() % 4 == 1 || (padding != 0 && given % 4 != 0) || padding > 2) {
    return wrong(std::to_string(text.size()) + " characters and " + std::to_string(padding) +
                 " of padding aren't a whole number of bytes");
  }
  Base64 out;
  out.bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = digit_of(text[i]);
    if (digit < 0) return wrong("character " + std::to_string(i + 1) + " of it isn't in a base64 alphabet");
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.bytes.push_back(static_cast<std::byte>(bits >> count));
    }
  }
  if ((bits & ((1u << count) - 1)) != 0) return wrong("its last character has extra bits: it was truncated or changed");
  return out;
}

}  // namespace crossdock
