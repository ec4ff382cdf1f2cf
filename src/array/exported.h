#pragma once

#include <cstdint>
#include <optional>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/schema.h"

/// What the C data interface has no place for, of arrays that export_batch() of this library gave away and that aren't
/// released: it goes on to import_batch().
namespace crossdock::array {

/// The custom metadata of the batch whose root `array` is. Nothing for one of its children, and for other producers'.
const Metadata& exported_metadata(const ArrowArray& array) noexcept;

/// The size of buffer number `buffer`, as the exported batch had it: the bytes that may be read there, whatever offsets
/// in memory that can change say meanwhile; kUnknownSize where the batch didn't know. Nothing for other producers'
/// arrays, for the sizes of variadic buffers, and where another pointer was put in the buffer's place.
std::optional<std::int64_t> exported_size(const ArrowArray& array, std::int64_t buffer) noexcept;

}  // namespace crossdock::array
