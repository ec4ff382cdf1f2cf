#include "exchange/internal/tensor_metadata.h"

#include <algorithm>
#include <limits>

#include "core/json.h"
#include "crossdock/core/error.h"

namespace crossdock::exchange {
namespace {

/// Reads an object of lists of whole numbers, and skips other entries. Returns whether it is one with a shape.
bool read_object(JsonReader& reader, ElementShape* element) {
  constexpr auto kMost = std::numeric_limits<std::size_t>::max();
  bool has_shape = false;
  if (!reader.take('{')) return false;
  if (reader.take('}')) return false;
  do {
    std::string key;
    if (!reader.string(&key) || !reader.take(':')) return false;
    if (key != "shape" && key != "permutation") {
      if (!reader.skip()) return false;
      continue;
    }
    std::vector<std::int64_t>& list = key == "shape" ? element->shape : element->permutation;
    list.clear();
    if (!reader.integers(&list, kMost)) return false;
    has_shape = has_shape || key == "shape";
  } while (reader.take(','));
  return has_shape && reader.take('}') && reader.at_end();
}

}  // namespace

ElementShape read_element_shape(std::string_view json) {
  JsonReader reader(json);
  ElementShape element;
  if (!read_object(reader, &element)) {
    throw InvalidDataError(
        "the metadata of an arrow.fixed_shape_tensor isn't a JSON object with a \"shape\" that is a list of ints");
  }
  for (const std::int64_t extent : element.shape) {
    if (extent < 0) throw InvalidDataError("an arrow.fixed_shape_tensor has a negative extent in its shape");
  }
  if (element.permutation.empty()) return element;
  std::vector<std::int64_t> sorted = element.permutation;
  std::ranges::sort(sorted);
  bool permutation = sorted.size() == element.shape.size();
  for (std::size_t d = 0; d < sorted.size(); ++d)
    permutation = permutation && sorted[d] == static_cast<std::int64_t>(d);
  if (!permutation) {
    throw InvalidDataError("an arrow.fixed_shape_tensor has a permutation that doesn't name each dimension once");
  }
  return element;
}

std::string write_element_shape(std::span<const std::int64_t> shape) { return "{\"shape\":" + json_of(shape) + "}"; }

}  // namespace crossdock::exchange
