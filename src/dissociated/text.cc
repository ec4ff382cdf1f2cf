#include "text.h"

namespace crossdock::dissociated {

std::size_t utf8_character(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation byte, or an overlong form of ASCII
  if (lead < 0xE0) return continues(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (!continues(1) || !continues(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
    if (lead == 0xED && byte(1) >= 0xA0) return 0;  // a surrogate
    return 3;
  }
  if (lead < 0xF5) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;   // overlong
    if (lead == 0xF4 && byte(1) >= 0x90) return 0;  // beyond U+10FFFF
    return 4;
  }
  return 0;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t size = utf8_character(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string bounded_utf8(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = utf8_character(text);
    if (out.size() + (size == 0 ? 1 : size) > limit) break;
    if (size == 0) {
      out += '?';
      text.remove_prefix(1);
    } else {
      out += text.substr(0, size);
      text.remove_prefix(size);
    }
  }
  return out;
}

std::string shown(std::string_view text, std::size_t limit) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  std::size_t taken = 0;
  while (taken < text.size() && taken < limit) {
    const std::size_t size = utf8_character(text.substr(taken));
    const auto byte = static_cast<unsigned char>(text[taken]);
    if (size == 0 || byte < 0x20 || byte == 0x7F || byte == '\'' || byte == '\\') {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      ++taken;
    } else {
      out += text.substr(taken, size);
      taken += size;
    }
  }
  out += '\'';
  if (taken < text.size()) out += "...";
  return out;
}

}  // namespace crossdock::dissociated
