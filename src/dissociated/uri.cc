#include "dissociated/uri.h"

#include <algorithm>
#include <charconv>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::dissociated {
namespace {

constexpr std::string_view kWantData = "want_data";
constexpr std::string_view kFreeData = "free_data";
constexpr std::string_view kRemoteHandle = "remote_handle";
constexpr std::string_view kStream = "stream";
constexpr std::string_view kCrossdock = "crossdock";
constexpr std::string_view kMetadataRole = "metadata";
constexpr std::string_view kDataRole = "data";

bool is_known(std::string_view name) noexcept {
  return name == kWantData || name == kFreeData || name == kRemoteHandle || name == kStream || name == kCrossdock;
}

bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

/// RFC 3986, section 3.1.
bool is_scheme(std::string_view text) noexcept {
  return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
  });
}

int hex_digit(char c) noexcept {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Returns the six bits of a character; -1 if it is in neither alphabet.
int digit_of(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '-' || c == '+') return 62;
  if (c == '_' || c == '/') return 63;
  return -1;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Uri parse() {
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) {
      fail(text_.size(), "it has no scheme; " + with_scheme());
    }
    if (!is_scheme(text_.substr(0, colon))) {
      fail(0, "its scheme must be a letter, then letters, digits, '+', '-' or '.', up to the first ':'");
    }
    uri_.scheme = text_.substr(0, colon);
    for (char& c : uri_.scheme) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    const std::size_t query = std::min(text_.find('?', colon), text_.size());
    uri_.address = decode(colon + 1, query);
    if (query < text_.size()) parse_query(query + 1);
    return std::move(uri_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    const std::string place = at < text_.size() ? "character " + std::to_string(at + 1) : "its end";
    throw UriError("bad URI " + shown(text_) + ", at " + place + ": " + what);
  }

  /// Returns a suggestion for a text without a scheme: a shm: name if the text can be one.
  std::string with_scheme() const {
    const bool is_word = !text_.empty() && std::ranges::all_of(text_, [](char c) {
      return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
    });
    if (is_word) return "did you mean shm:" + bounded_utf8(text_, 100) + "?";
    return "write for example shm:flights, shm:/run/user/1000/flights.sock or tcp://10.0.0.1:7700";
  }

  /// Percent-decodes text_[begin, end). A '+' is a plus.
  std::string decode(std::size_t begin, std::size_t end) const {
    std::string out;
    out.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      char c = text_[i];
      if (c == '#') fail(i, "a fragment ('#') isn't allowed; a '#' in a name is written %23");
      if (c == ' ') {
        fail(i, "a space: in a path it is written %20; a name has only letters, digits, '.', '_' and '-'");
      }
      const std::size_t at = i;
      if (c == '%') {
        const int high = i + 1 < end ? hex_digit(text_[i + 1]) : -1;
        const int low = i + 2 < end ? hex_digit(text_[i + 2]) : -1;
        if (high < 0 || low < 0) fail(i, "'%' must be followed by two hexadecimal digits; a '%' itself is written %25");
        c = static_cast<char>(high * 16 + low);
        i += 2;
      }
      if (is_control(c)) fail(at, "a control character, which no address and no parameter may contain");
      out += c;
    }
    return out;
  }

  void parse_query(std::size_t begin) {
    if (begin == text_.size()) return;
    for (;;) {
      const std::size_t end = std::min(text_.find('&', begin), text_.size());
      parse_parameter(begin, end);
      if (end == text_.size()) return;
      begin = end + 1;
    }
  }

  void parse_parameter(std::size_t begin, std::size_t end) {
    const std::size_t equals = std::min(text_.find('=', begin), end);
    std::string name = decode(begin, equals);
    const std::size_t at = std::min(equals + 1, end);
    std::string value = decode(at, end);
    if (name.empty()) fail(begin, "a parameter without a name");
    if (!is_known(name)) {
      uri_.others.emplace_back(std::move(name), std::move(value));
      return;
    }
    if (value.empty()) fail(at, name + " has no value");
    if (name == kWantData) {
      set_once(begin, kWantData, &uri_.want_data, number(at, kWantData, value));
    } else if (name == kFreeData) {
      set_once(begin, kFreeData, &uri_.free_data, number(at, kFreeData, value));
    } else if (name == kRemoteHandle) {
      if (!uri_.remote_handle.empty()) fail(begin, name + " is given twice");
      uri_.remote_handle = base64(at, value);
      if (uri_.remote_handle.empty()) fail(at, "remote_handle is empty");
    } else if (name == kCrossdock) {
      if (uri_.crossdock) fail(begin, name + " is given twice");
      if (value != "1") fail(at, "crossdock is " + shown(value) + "; it must be 1, or be left out");
      uri_.crossdock = true;
    } else {
      if (uri_.role != ChannelRole::kBoth) fail(begin, name + " is given twice");
      if (value != kMetadataRole && value != kDataRole) {
        fail(at, "stream is " + shown(value) +
                     "; it must be metadata or data, or be left out where one connection carries both");
      }
      uri_.role = value == kMetadataRole ? ChannelRole::kMetadata : ChannelRole::kData;
    }
  }

  void set_once(std::size_t at, std::string_view name, std::optional<std::uint64_t>* to, std::uint64_t value) const {
    if (to->has_value()) fail(at, std::string(name) + " is given twice");
    *to = value;
  }

  std::uint64_t number(std::size_t at, std::string_view name, std::string_view value) const {
    const bool hexadecimal = value.starts_with("0x") || value.starts_with("0X");
    const std::string_view digits = hexadecimal ? value.substr(2) : value;
    std::uint64_t result = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), result, hexadecimal ? 16 : 10);
    if (error == std::errc::result_out_of_range) {
      fail(at, std::string(name) + " is " + shown(value, 40) + ", which is over 18446744073709551615");
    }
    if (error != std::errc() || end != digits.data() + digits.size()) {
      fail(at, std::string(name) + " is " + shown(value, 40) +
                   "; it must be a decimal number, or a hexadecimal one that starts with 0x");
    }
    return result;
  }

  /// Decodes both alphabets of RFC 4648, with or without padding.
  std::vector<std::byte> base64(std::size_t at, std::string_view text) const {
    const auto refuse = [&](const std::string& why) { fail(at, "remote_handle isn't base64: " + why); };
    const std::size_t given = text.size();
    while (text.ends_with('=')) text.remove_suffix(1);
    const std::size_t padding = given - text.size();
    if (text.size() % 4 == 1 || (padding != 0 && given % 4 != 0) || padding > 2) {
      refuse(std::to_string(text.size()) + " characters and " + std::to_string(padding) +
             " of padding aren't a whole number of bytes");
    }
    std::vector<std::byte> out;
    out.reserve(text.size() * 3 / 4);
    std::uint32_t bits = 0;
    int count = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const int digit = digit_of(text[i]);
      if (digit < 0) refuse("character " + std::to_string(i + 1) + " of it isn't in a base64 alphabet");
      bits = (bits << 6) | static_cast<std::uint32_t>(digit);
      count += 6;
      if (count >= 8) {
        count -= 8;
        out.push_back(static_cast<std::byte>(bits >> count));
      }
    }
    if ((bits & ((1u << count) - 1)) != 0) refuse("its last character has extra bits: it was truncated or changed");
    return out;
  }

  std::string_view text_;
  Uri uri_;
};

}  // namespace

Uri parse_uri(std::string_view text) { return Parser(text).parse(); }

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

}  // namespace crossdock::dissociated
