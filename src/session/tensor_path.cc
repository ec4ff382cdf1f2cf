#include "session/tensor_path.h"

#include <algorithm>

#include "core/json.h"
#include "core/text.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

std::string too_many_keys(std::size_t count) {
  return std::to_string(count) + " keys; it may have " + std::to_string(kMaxTensorPath);
}

}  // namespace

std::string write_path(std::span<const std::string> path) {
  if (path.empty()) throw InvalidArgumentError("each of several tensors needs a path of one key at least");
  if (path.size() > kMaxTensorPath) {
    throw InvalidArgumentError("a tensor's path, which begins with " + shown(path[0]) + ", has " +
                               too_many_keys(path.size()));
  }
  std::string json = "[";
  for (const std::string& key : path) {
    if (!is_utf8(key)) throw InvalidArgumentError("a key of a tensor's path isn't UTF-8: " + shown(key));
    if (json.size() > 1) json += ", ";
    append_json(key, &json);
  }
  return json + "]";
}

std::vector<std::string> read_path(std::string_view json, const std::string& where) {
  std::vector<std::string> path;
  JsonReader reader(json);
  const bool read = reader.list([&] { return path.size() <= kMaxTensorPath && reader.string(&path.emplace_back()); });
  if (path.size() > kMaxTensorPath) {
    throw InvalidDataError(where + ": a tensor's path has more than " + std::to_string(kMaxTensorPath) + " keys");
  }
  if (!read || !reader.at_end() || path.empty() || !std::ranges::all_of(path, is_utf8)) {
    throw InvalidDataError(where + ": a tensor's path isn't a JSON list of strings: " + shown(json));
  }
  return path;
}

void check_paths(std::vector<std::span<const std::string>>* paths) {
  std::ranges::sort(*paths, std::ranges::lexicographical_compare);
  for (std::size_t i = 1; i < paths->size(); ++i) {
    const auto one = (*paths)[i - 1];
    const auto next = (*paths)[i];
    // Those that begin with `one` follow it at once.
    if (one.size() > next.size() || !std::ranges::equal(one, next.first(one.size()))) continue;
    throw InvalidArgumentError("two tensors have the path " + excerpt(write_path(one)) +
                               (one.size() == next.size() ? "" : ", which is also the beginning of another's"));
  }
}

bool read_shape(std::string_view json, std::vector<std::int64_t>* shape) {
  JsonReader reader(json);
  return reader.integers(shape, static_cast<std::size_t>(array::kMaxTensorDimensions)) && reader.at_end();
}

}  // namespace crossdock::session
