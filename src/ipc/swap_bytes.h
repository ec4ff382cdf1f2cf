#pragma once

#include <memory>
#include <vector>

#include "crossdock/ipc/metadata.h"
#include "output_memory.h"

namespace crossdock::ipc {

/// Turns big-endian buffers into ours: those that hold numbers of more than one byte are copied, swapped, into one
/// allocation of `memory`, and `*views` changed to it; others stay. The header is that of the buffers, uncompressed.
/// Returns what keeps all of them: `owner`, or it and the allocation. More than `limits.max_decompressed_bytes` to copy
/// throws InvalidDataError that begins with `where`.
std::shared_ptr<const void> swap_bytes(const array::Schema& schema, const BatchHeader& header, const Limits& limits,
                                       const char* where, OutputMemory* memory, std::shared_ptr<const void> owner,
                                       std::vector<array::BufferView>* views);

}  // namespace crossdock::ipc
