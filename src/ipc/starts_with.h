#pragma once

#include "crossdock/array/record_batch.h"

namespace crossdock::ipc {

/// Whether the first rows of `whole` are exactly those of `start`, dictionaries within them apart (their indices are
/// compared). Both are of one type and normalized with Offsets::kFromZero. May be false where only the way of storing
/// them differs (lists that are null but hold elements, elements that nothing points to): then a dictionary is sent
/// again that needn't be.
bool starts_with(const array::RecordBatch& whole, const array::RecordBatch& start);

}  // namespace crossdock::ipc
