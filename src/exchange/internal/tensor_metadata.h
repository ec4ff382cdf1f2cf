#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/array/schema.h"

/// The metadata of Arrow's canonical extension type arrow.fixed_shape_tensor: JSON in the field's metadata (Arrow
/// columnar format, "Canonical Extension Types").
namespace crossdock::exchange {

inline constexpr std::string_view kExtensionNameKey = "ARROW:extension:name";
inline constexpr std::string_view kExtensionMetadataKey = "ARROW:extension:metadata";
inline constexpr std::string_view kFixedShapeTensor = "arrow.fixed_shape_tensor";

/// Shape of each element of such a column.
struct ElementShape {
  std::vector<std::int64_t> shape;        ///< Physical shape in memory, in C order.
  std::vector<std::int64_t> permutation;  ///< Logical dimension i is dimension permutation[i] of `shape`; may be empty.
};

/// Reads the JSON: an object with "shape", and optionally "permutation"; skips other entries. Throws InvalidDataError
/// for other JSON, for a negative extent, and for an invalid permutation.
ElementShape read_element_shape(std::string_view json);
std::string write_element_shape(std::span<const std::int64_t> shape);

}  // namespace crossdock::exchange
