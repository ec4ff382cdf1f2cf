#pragma once

#include <vector>

#include "crossdock/array/record_batch.h"

namespace crossdock::ipc {

/// The rows of `parts`, one after the other, in new memory (but for the bytes of views, which stay where they are).
/// There is at least one part; all are of the first one's type and have passed check_structure. Dictionaries are the
/// last part's: indices stay as they are. Throws InvalidDataError where the sum doesn't fit a type (offsets, run ends).
array::RecordBatch concatenate(const std::vector<const array::RecordBatch*>& parts);

}  // namespace crossdock::ipc
