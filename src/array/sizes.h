#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "crossdock/array/record_batch.h"

/// Reads the sizes that were unknown (kUnknownSize) when a batch was imported.
namespace crossdock::array {

/// Replaces every dictionary of a batch, nested ones too, by a copy of its RecordBatch that only this batch holds, so
/// that it may be changed. The memory is shared. A dictionary that several columns share stays shared. Returns the
/// copies; the pointers are valid as long as the batch keeps them.
std::vector<RecordBatch*> own_dictionaries(RecordBatch* batch);

/// The place in memory of the sizes of one node's buffers.
struct SizesAt {
  const void* numbers;  ///< `count` little-endian integers of `width` bytes, in the batch's memory.
  std::int32_t width;   ///< 4 or 8.
  std::int64_t count;   ///< Number of sizes, and of buffers from `first_buffer` on.
  RecordBatch* batch;   ///< The batch, or a dictionary of it.
  std::size_t node;
  std::size_t first_buffer;

  std::int64_t nbytes() const noexcept { return count * width; }
};

/// Returns the places of all unknown sizes. If there is one, first makes the dictionaries the batch's own
/// (own_dictionaries()).
std::vector<SizesAt> unknown_sizes(RecordBatch* batch);

/// Sets the sizes from `numbers`, a copy in host memory. Throws InvalidDataError, which names the field, for a negative
/// size, and for a size above 0 of an absent buffer.
void set_sizes(const SizesAt& at, const void* numbers);

/// Reads the unknown sizes of a batch whose memory the host can read now, but couldn't on import. Makes the checks that
/// were skipped on import (check_structure). Throws InvalidDataError; InvalidArgumentError if the batch isn't
/// host_readable().
void read_sizes(RecordBatch* batch);

}  // namespace crossdock::array
