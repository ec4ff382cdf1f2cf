#include "text.h"

namespace crossdock::array {

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string child_path(const std::string& parent, std::string_view name, std::size_t position) {
  std::string step = name.empty() ? "[" + std::to_string(position) + "]" : printable(name);
  return parent.empty() ? step : parent + "." + step;
}

std::string in_field(const std::string& path) { return path.empty() ? "top level" : "field \"" + path + "\""; }

}  // namespace crossdock::array
