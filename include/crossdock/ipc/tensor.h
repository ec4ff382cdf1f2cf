#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crossdock/array/type.h"
#include "crossdock/ipc/metadata.h"

namespace crossdock::ipc {

/// Most dimensions of a tensor.
inline constexpr int kMaxDimensions = 64;

/// A dense tensor (Tensor.fbs): an n-dimensional array of numbers of one width, of which a message's body is the
/// memory. Read by Message::tensor(), written by Encoder::tensor(). A plain value.
struct TensorHeader {
  array::Type type;                   ///< Of fixed width: integers, floats, decimals, dates, times, intervals.
  std::vector<std::int64_t> shape;    ///< No dimensions: one value.
  std::vector<std::string> names;     ///< Of the dimensions, as many as those; or none.
  std::vector<std::int64_t> strides;  ///< Bytes, not negative, as many as dimensions. Any: also 0, also overlapping.
  BufferRange data;                   ///< Within the body. Long enough for every element.
  std::int64_t body_length = 0;       ///< Read only; written is data's end, padded to 64.
  array::Metadata custom_metadata;    ///< The message's.
};

/// The strides of a tensor whose last dimension is the closest (C order). Throws InvalidDataError where that overflows.
CROSSDOCK_EXPORT std::vector<std::int64_t> row_major_strides(const array::Type& type,
                                                             const std::vector<std::int64_t>& shape);

/// Bytes from the first element's start to the end of the farthest one; 0 if there is no element. Throws
/// InvalidDataError for a type that isn't of fixed width, more than kMaxDimensions, counts of strides or names that
/// don't fit, negative numbers, and sizes that overflow; `where` begins it.
CROSSDOCK_EXPORT std::int64_t tensor_extent(const TensorHeader& tensor, const char* where);

}  // namespace crossdock::ipc
