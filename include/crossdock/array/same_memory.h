#pragma once

#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"

namespace crossdock::array {

/// Whether two batches of one schema show the same elements of the same memory: nodes' lengths and offsets, and all
/// buffers' addresses and sizes. Reads no byte of them, and looks at no dictionaries. True says that they are equal as
/// long as the memory is held; false says nothing.
CROSSDOCK_EXPORT bool same_memory(const RecordBatch& a, const RecordBatch& b) noexcept;

}  // namespace crossdock::array
