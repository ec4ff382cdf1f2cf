#pragma once

#include "crossdock/array/c_abi.h"
#include "crossdock/array/schema.h"

namespace crossdock::array {

/// What the C data interface has no place for: the custom metadata of a batch that export_batch() gave away as `array`,
/// which isn't released. Nothing for one of its children, and for what others made.
const Metadata& exported_metadata(const ArrowArray& array) noexcept;

}  // namespace crossdock::array
