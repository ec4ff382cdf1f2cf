#include "core/text.h"

#include <algorithm>
#include <iterator>

namespace crossdock {
namespace {

constexpr char kHex[] = "0123456789abcdef";

struct Range {
  char32_t first, last;
};

/// The characters of Unicode 14 from U+0080 on that are of the categories Cc, Cf, Zl and Zp, and the rest of the block
/// of tags. Python's str.isprintable() says the same of them.
constexpr Range kWithoutShape[] = {{0x0080, 0x009F},   {0x00AD, 0x00AD},   {0x0600, 0x0605},   {0x061C, 0x061C},
                                   {0x06DD, 0x06DD},   {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},
                                   {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x2064},
                                   {0x2066, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},
                                   {0x110CD, 0x110CD}, {0x13430, 0x13438}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
                                   {0xE0000, 0xE007F}};

bool has_shape(char32_t character) noexcept {
  const auto* const range = std::ranges::lower_bound(kWithoutShape, character, {}, &Range::last);
  return range == std::end(kWithoutShape) || character < range->first;
}

/// Returns the character of these bytes, which are one of UTF-8.
char32_t decoded(std::string_view bytes) noexcept {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (bytes.size() == 1) return lead;
  char32_t character = lead & (0x7Fu >> bytes.size());
  for (const char byte : bytes.substr(1)) character = character << 6 | (static_cast<unsigned char>(byte) & 0x3Fu);
  return character;
}

void append_escape(char32_t character, std::string* out) {
  const int digits = character > 0xFFFF ? 8 : 4;
  *out += {'\\', digits == 8 ? 'U' : 'u'};
  for (int i = digits - 1; i >= 0; --i) *out += kHex[character >> (4 * i) & 15];
}

/// Appends the character at the start of `text`. If it isn't printable, or is one of `escaped`, appends it, or its
/// first byte if there is none, as printable() says. Returns how many bytes of `text` it used.
std::size_t append_printable(std::string_view text, std::string_view escaped, std::string* out) {
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
  const std::string_view character = text.substr(0, size);
  if (has_shape(decoded(character))) {
    *out += character;
  } else {
    append_escape(decoded(character), out);
  }
  return size;
}

/// Appends the characters at the start of `text` that fit in `limit` bytes. Returns how many bytes of `text` it used.
std::size_t append_start(std::string_view text, std::size_t limit, std::string_view escaped, std::string* out) {
  std::size_t taken = 0;
  while (taken < text.size()) {
    const std::size_t size = std::max<std::size_t>(utf8_character(text.substr(taken)), 1);
    if (taken + size > limit) break;
    taken += append_printable(text.substr(taken), escaped, out);
  }
  return taken;
}

/// Returns what stands for the part of `text` that isn't shown.
std::string rest_of(std::string_view text, std::size_t taken) {
  return taken == text.size() ? "" : "... (" + std::to_string(text.size()) + " bytes)";
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

std::string excerpt(std::string_view text, std::size_t limit) {
  std::string out;
  const std::size_t taken = append_start(text, limit, {}, &out);
  return out + rest_of(text, taken);
}

std::string shown(std::string_view text, std::size_t limit) {
  std::string out = "'";
  const std::size_t taken = append_start(text, limit, "'\\", &out);
  return out + "'" + rest_of(text, taken);
}

std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t taken = 0;
  for (std::size_t next = 0; next <= limit; next += std::max<std::size_t>(utf8_character(text.substr(next)), 1)) {
    taken = next;
  }
  return std::string(text.substr(0, taken)) + rest_of(text, taken);
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
