#pragma once

#include <memory>
#include <vector>

#include "ipc/internal/output_memory.h"
#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Converts big-endian buffers to little-endian. Buffers of numbers of more than one byte are copied, swapped, into one
/// allocation of `memory`, and `*views` are changed to the copies; other buffers stay. The header describes the
/// buffers, uncompressed. Returns the owner that keeps all of them alive: `owner`, or `owner` together with the
/// allocation. Throws InvalidDataError, which begins with `where`, if more than `limits.max_decompressed_bytes` must be
/// copied.
std::shared_ptr<const void> swap_bytes(const array::Schema& schema, const BatchHeader& header, const Limits& limits,
                                       const char* where, OutputMemory* memory, std::shared_ptr<const void> owner,
                                       std::vector<array::BufferView>* views);

}  // namespace crossdock::ipc
