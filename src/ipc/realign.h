#pragma once

#include <memory>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "ipc/internal/output_memory.h"
#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Aligns the buffers of bodies. The format asks writers for addresses at multiples of 8, but allows others, and slices
/// begin anywhere. A consumer of a batch, however, reads numbers in place. Reuse one object: it keeps memory that
/// bodies freed. One thread at a time; the batches may be dropped on any thread.
class Realigner {
 public:
  explicit Realigner(const Limits& limits = {}) : most_(limits.max_decompressed_bytes) {}

  /// Copies the buffers whose address isn't a multiple of array::element_alignment() to 64-aligned memory, and changes
  /// their `*views` to the copies. Other buffers stay in their place.
  ///
  /// `header` came from Message::batch with `schema`, and the views are its buffers, readable on the host. Returns the
  /// owner that keeps all of them alive: `owner` itself if nothing was copied. If all addresses are multiples of 8, as
  /// usual, this costs one pass over the addresses. Throws InvalidDataError, which begins with `where`, if the copies
  /// take more than Limits::max_decompressed_bytes in all: several buffers may be the same bytes.
  std::shared_ptr<const void> realign(const array::Schema& schema, const BatchHeader& header,
                                      std::shared_ptr<const void> owner, const char* where,
                                      std::vector<array::BufferView>* views);

 private:
  /// Lists the misaligned buffers. Returns the number of bytes that their copies take.
  std::uint64_t find(const array::Schema& schema, const BatchHeader& header, const char* where,
                     std::vector<array::BufferView>* views);

  std::int64_t most_;
  OutputMemory memory_;
  std::vector<array::BufferView*> misaligned_;
};

}  // namespace crossdock::ipc
