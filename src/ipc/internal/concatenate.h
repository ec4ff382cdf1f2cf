#pragma once

#include <vector>

#include "crossdock/array/record_batch.h"

namespace crossdock::ipc {

/// Joins a dictionary and its deltas: concatenates the rows of `parts` in new memory. The bytes of views stay in the
/// parts' memory. There is at least one part; all have the type of the first one and have passed check_structure. The
/// result has the last part's dictionaries, and indices are unchanged. Throws InvalidDataError if the sum doesn't fit a
/// type (offsets, run ends).
array::RecordBatch concatenate(const std::vector<const array::RecordBatch*>& parts);

}  // namespace crossdock::ipc
