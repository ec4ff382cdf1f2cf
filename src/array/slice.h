#pragma once

#include <cstdint>

#include "crossdock/array/record_batch.h"

namespace crossdock::array {

/// Returns `count` rows of a batch from row `first` on, which it must have. They share its memory: nothing is copied or
/// read.
RecordBatch slice_rows(RecordBatch batch, std::int64_t first, std::int64_t count);

}  // namespace crossdock::array
