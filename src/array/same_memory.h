#pragma once

#include "crossdock/array/record_batch.h"

namespace crossdock::array {

/// True if two batches of one schema show the same elements of the same memory: equal lengths and offsets of nodes, and
/// equal addresses and sizes of all buffers. Reads no byte of the buffers, and ignores dictionaries. True means that
/// the batches are equal as long as the memory is held; false means nothing.
bool same_memory(const RecordBatch& a, const RecordBatch& b) noexcept;

}  // namespace crossdock::array
