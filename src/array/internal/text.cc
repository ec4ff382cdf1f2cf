#include "array/internal/text.h"

#include "crossdock/core/error.h"

namespace crossdock::array {

std::string child_path(const std::string& parent, std::string_view name, std::size_t position) {
  std::string step = name.empty() ? "[" + std::to_string(position) + "]" : excerpt(name);
  return parent.empty() ? step : parent + "." + step;
}

std::string in_field(const std::string& path) {
  return path.empty() ? "top level" : "field \"" + shortened(path, 2 * kMostShown) + "\"";
}

void throw_invalid(const std::string& path, const std::string& what) {
  throw InvalidDataError(in_field(path) + ": " + what);
}

}  // namespace crossdock::array
