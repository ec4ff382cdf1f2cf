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

/// What each element of such a column is.
struct ElementShape {
  std::vector<std::int64_t> shape;        ///< As it lies in memory, in C order.
  std::vector<std::int64_t> permutation;  ///< Logical dimension i is dimension permutation[i] of `shape`; may be empty.
};

/// Reads the JSON: an object with "shape", and "permutation" where there is one; other entries are skipped. Throws
/// InvalidDataError: no such JSON, a negative extent, a permutation that is none.
ElementShape read_element_shape(std::string_view json);
std::string write_element_shape(std::span<const std::int64_t> shape);

/// The value of a key, or null.
const std::string* find_value(const array::Metadata& metadata, std::string_view key) noexcept;

}  // namespace crossdock::exchange
