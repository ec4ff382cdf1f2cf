#include "array/internal/text.h"

namespace crossdock::array {

std::string child_path(const std::string& parent, std::string_view name, std::size_t position) {
  std::string step = name.empty() ? "[" + std::to_string(position) + "]" : printable(name);
  return parent.empty() ? step : parent + "." + step;
}

std::string in_field(const std::string& path) { return path.empty() ? "top level" : "field \"" + path + "\""; }

}  // namespace crossdock::array
