#include "dissociated/uri.h"

#include <algorithm>
#include <charconv>

#include "core/base64.h"
#include "core/text.h"
#include "core/user_info.h"
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
constexpr std::size_t kPortDigits = 5;
constexpr int kMostPort = 65535;

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

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Uri parse() {
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) {
      throw UriError("bad URI " + shown(without_user(text_)) + ": it has no scheme; " + with_scheme());
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
    throw UriError("bad URI " + shown(without_user(text_)) + ", at " + place + ": " + what);
  }

  /// Returns a suggestion for a text without a scheme: a port if it is a number, else a shm: name if it can be one.
  std::string with_scheme() const {
    if (!text_.empty() && text_.size() <= kPortDigits && std::ranges::all_of(text_, is_digit) &&
        std::stoi(std::string(text_)) <= kMostPort) {
      return "did you mean tcp://localhost:" + std::string(text_) + "?";
    }
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

  std::vector<std::byte> base64(std::size_t at, std::string_view text) const {
    Base64 decoded = from_base64(text);
    if (!decoded.wrong.empty()) fail(at, "remote_handle isn't base64: " + decoded.wrong);
    return std::move(decoded.bytes);
  }

  std::string_view text_;
  Uri uri_;
};

}  // namespace

Uri parse_uri(std::string_view text) { return Parser(text).parse(); }

}  // namespace crossdock::dissociated
