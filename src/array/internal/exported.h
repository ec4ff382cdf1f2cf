#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/schema.h"

/// Properties that the C data interface has no place for. They are known for arrays that this library's export_batch()
/// exported and that aren't released yet, and import_batch() takes them over.
namespace crossdock::array {

/// Returns the custom metadata of the batch whose root array is `array`. Empty for its children, and for other
/// producers' arrays.
const Metadata& exported_metadata(const ArrowArray& array) noexcept;

/// Returns the size of buffer number `buffer` as the exported batch had it: the bytes that may be read there, even if
/// offsets in memory that can change have other values now. Returns kUnknownSize if the batch didn't know the size.
/// Returns nullopt for other producers' arrays, for the buffer that holds the sizes of variadic buffers, and if the
/// pointer of the buffer was replaced.
std::optional<std::int64_t> exported_size(const ArrowArray& array, std::int64_t buffer) noexcept;

}  // namespace crossdock::array
