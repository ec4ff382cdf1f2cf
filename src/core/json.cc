#include "core/json.h"

#include <algorithm>
#include <charconv>

namespace crossdock {
namespace {

void append_utf8(std::uint32_t point, std::string* out) {
  const auto byte = [&](std::uint32_t value) { out->push_back(static_cast<char>(value)); };
  if (point < 0x80) return byte(point);
  if (point < 0x800) {
    byte(0xC0 | (point >> 6));
  } else {
    if (point < 0x10000) {
      byte(0xE0 | (point >> 12));
    } else {
      byte(0xF0 | (point >> 18));
      byte(0x80 | ((point >> 12) & 0x3F));
    }
    byte(0x80 | ((point >> 6) & 0x3F));
  }
  byte(0x80 | (point & 0x3F));
}

}  // namespace

void JsonReader::skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

bool JsonReader::take(char expected) {
  skip_space();
  if (!rest_.starts_with(expected)) return false;
  rest_.remove_prefix(1);
  return true;
}

bool JsonReader::at_end() {
  skip_space();
  return rest_.empty();
}

bool JsonReader::integer(std::int64_t* out) {
  skip_space();
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *out);
  if (error != std::errc{}) return false;
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  return true;
}

bool JsonReader::integers(std::vector<std::int64_t>* out, std::size_t most) {
  return list([&] { return out->size() < most && integer(&out->emplace_back()); });
}

bool JsonReader::string(std::string* out) {
  if (!take('"')) return false;
  while (!rest_.empty()) {
    const char next = rest_.front();
    rest_.remove_prefix(1);
    if (next == '"') return true;
    if (static_cast<unsigned char>(next) < 0x20) return false;
    if (next != '\\') {
      *out += next;
    } else if (!escape(out)) {
      return false;
    }
  }
  return false;
}

/// Reads what follows a backslash.
bool JsonReader::escape(std::string* out) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (rest_.empty()) return false;
  const char name = rest_.front();
  rest_.remove_prefix(1);
  if (const std::size_t known = kNames.find(name); known != std::string_view::npos) {
    *out += kMeanings[known];
    return true;
  }
  std::uint32_t point = 0;
  if (name != 'u' || !hex(&point)) return false;
  if (point >= 0xD800 && point < 0xDC00) {
    std::uint32_t low = 0;
    if (!rest_.starts_with("\\u")) return false;
    rest_.remove_prefix(2);
    if (!hex(&low) || low < 0xDC00 || low >= 0xE000) return false;
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(point, out);  // a low surrogate alone becomes what isn't UTF-8
  return true;
}

bool JsonReader::hex(std::uint32_t* out) {
  if (rest_.size() < 4) return false;
  const char* const four = rest_.data() + 4;
  const auto [end, error] = std::from_chars(rest_.data(), four, *out, 16);
  if (error != std::errc{} || end != four) return false;
  rest_.remove_prefix(4);
  return true;
}

bool JsonReader::skip(int depth) {
  skip_space();
  const bool nests = rest_.starts_with('[') || rest_.starts_with('{');
  if (nests && depth == 0) return false;
  if (rest_.starts_with('[')) return list([&] { return skip(depth - 1); });
  if (rest_.starts_with('{')) return object([&](const std::string&) { return skip(depth - 1); });
  if (rest_.starts_with('"')) {
    std::string ignored;
    return string(&ignored);
  }
  const std::size_t end = std::min(rest_.find_first_of(",]} \t\r\n[{\""), rest_.size());
  rest_.remove_prefix(end);
  return end != 0;
}

void append_json(std::string_view text, std::string* out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  *out += '"';
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte < 0x20) {
      *out += "\\u00";
      *out += kDigits[byte >> 4];
      *out += kDigits[byte & 0xF];
    } else {
      if (each == '"' || each == '\\') *out += '\\';
      *out += each;
    }
  }
  *out += '"';
}

std::string json_of(std::span<const std::int64_t> numbers) {
  std::string json = "[";
  for (const std::int64_t number : numbers) {
    if (json.size() > 1) json += ',';
    json += std::to_string(number);
  }
  return json + "]";
}

}  // namespace crossdock
