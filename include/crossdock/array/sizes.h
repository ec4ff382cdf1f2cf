#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"

/// Finding out the sizes that an imported batch couldn't say (kUnknownSize).
namespace crossdock::array {

/// Replaces every dictionary of a batch, nested ones too, by a copy of the RecordBatch (its memory is shared) that
/// nobody else has, so that it may be changed; one that several columns share stays shared. Returns them, as long as
/// the batch keeps them.
CROSSDOCK_EXPORT std::vector<RecordBatch*> own_dictionaries(RecordBatch* batch);

/// Where the sizes of one node's buffers stand.
struct SizesAt {
  const void* numbers;  ///< `count` little-endian integers of `width` bytes, in the batch's memory.
  std::int32_t width;   ///< 4 or 8.
  std::int64_t count;   ///< As many buffers from `first_buffer` on.
  RecordBatch* batch;   ///< The batch, or a dictionary of it.
  std::size_t node;
  std::size_t first_buffer;

  std::int64_t nbytes() const noexcept { return count * width; }
};

/// Every size that isn't known. Dictionaries are made the batch's own first (own_dictionaries()), if there is one.
CROSSDOCK_EXPORT std::vector<SizesAt> unknown_sizes(RecordBatch* batch);

/// Sets them from `numbers`, a copy in host memory. Throws InvalidDataError that names the field for one below 0, and
/// for one above 0 of a buffer that isn't there.
CROSSDOCK_EXPORT void set_sizes(const SizesAt& at, const void* numbers);

/// Of a batch whose memory the host may read now, after it couldn't: reads the sizes, and makes the checks that were
/// left out on import (check_structure). Throws InvalidDataError, InvalidArgumentError if it isn't host_readable().
CROSSDOCK_EXPORT void read_sizes(RecordBatch* batch);

}  // namespace crossdock::array
