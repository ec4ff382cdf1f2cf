#pragma once

#include "crossdock/array/record_batch.h"

namespace crossdock::ipc {

/// True if the first rows of `whole` are exactly those of `start`. Ignores dictionaries within them, but compares their
/// indices. Both have the same type and are normalized with Offsets::kFromZero. May return false if only the storage
/// differs (null lists that hold elements, elements that nothing points to): a dictionary is then sent again without
/// need.
bool starts_with(const array::RecordBatch& whole, const array::RecordBatch& start);

}  // namespace crossdock::ipc
