#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crossdock/array/schema.h"
#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Maximum number of dimensions of a tensor.
inline constexpr int kMaxDimensions = 64;

/// A dense tensor (Tensor.fbs): an n-dimensional array of numbers of one width. The message's body is its memory. Read
/// by Message::tensor(), written by Encoder::tensor(). A plain value.
struct TensorHeader {
  array::Type type;                   ///< Of fixed width: integers, floats, decimals, dates, times, intervals.
  std::vector<std::int64_t> shape;    ///< Without dimensions: one value.
  std::vector<std::string> names;     ///< Names of the dimensions, one each; or empty.
  std::vector<std::int64_t> strides;  ///< Bytes, not negative, one per dimension. May be 0 or overlap.
  BufferRange data;                   ///< Place in the body; long enough for every element.
  std::int64_t body_length = 0;       ///< On writing, 0 means data's end, padded to 64.
  array::Metadata custom_metadata;    ///< Of the message.
};

/// Returns the strides in C order: the last dimension is the densest. Throws InvalidDataError on overflow.
std::vector<std::int64_t> row_major_strides(const array::Type& type, const std::vector<std::int64_t>& shape);

/// Returns the bytes from the first element's start to the end of the farthest one; 0 if there is no element. Throws
/// InvalidDataError, which begins with `where`, for a type that isn't of fixed width, for more than kMaxDimensions, for
/// wrong numbers of strides or names, for negative numbers, and for sizes that overflow.
std::int64_t tensor_extent(const TensorHeader& tensor, const char* where);

}  // namespace crossdock::ipc
