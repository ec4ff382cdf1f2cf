#include "core/text.h"

namespace crossdock {
namespace {

/// Appends the character at the start of `text`. If it isn't printable, or is one of `escaped`, appends its first byte
/// as \n, \r, \t or \xNN instead. Returns how many bytes of `text` it used.
std::size_t append_printable(std::string_view text, std::string_view escaped, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  const std::size_t size = utf8_character(text);
  const auto byte = static_cast<unsigned char>(text[0]);
  if (size == 0 || byte < 0x20 || byte == 0x7F || escaped.find(text[0]) != std::string_view::npos) {
    if (const std::size_t named = std::string_view("\n\r\t").find(text[0]); named != std::string_view::npos) {
      *out += {'\\', "nrt"[named]};
    } else {
      *out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
    return 1;
  }
  *out += text.substr(0, size);
  return size;
}

}  // namespace

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

bool is_text_name(std::string_view name) noexcept {
  return !name.empty() && name.find('\0') == std::string_view::npos && is_utf8(name);
}

std::string bounded_utf8(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = utf8_character(text);
    const std::string_view kept = size == 0 ? "?" : text.substr(0, size);
    if (out.size() + kept.size() > limit) break;
    out += kept;
    text.remove_prefix(kept.size());
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) text.remove_prefix(append_printable(text, {}, &out));
  return out;
}

std::string shown(std::string_view text, std::size_t limit) {
  std::string out = "'";
  std::size_t taken = 0;
  while (taken < text.size() && taken < limit) taken += append_printable(text.substr(taken), "'\\", &out);
  out += '\'';
  if (taken < text.size()) out += "...";
  return out;
}

std::string first_names(std::span<const std::string> names) {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (const std::string& name : names.first(std::min(names.size(), kMost))) text += (text.empty() ? "" : ", ") + name;
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

std::string percent_encoded(std::string_view text, std::string_view plain) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_word || plain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

}  // namespace crossdock
