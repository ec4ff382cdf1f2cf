#pragma once

#include <memory>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"
#include "crossdock/ipc/metadata.h"

namespace crossdock::ipc {

/// Bodies whose buffers lie at odd addresses. The format asks writers for multiples of 8 and lets readers meet others,
/// and slices begin anywhere; but who gets a batch reads numbers where they are. Keep one: it keeps memory that bodies
/// freed. One thread at a time; the batches may be dropped on any.
class CROSSDOCK_EXPORT Realigner {
 public:
  explicit Realigner(const Limits& limits = {});
  ~Realigner();
  Realigner(Realigner&&) noexcept;
  Realigner& operator=(Realigner&&) noexcept;

  /// Copies the buffers whose address isn't a multiple of array::element_alignment() to 64-aligned memory, and has
  /// `*views` view these there; the others stay where they are. `header` came from Message::batch with `schema`, and
  /// the views are its buffers, readable on the host. Returns what keeps all of them alive: `owner` itself where
  /// nothing was copied. Costs one pass over the addresses where they are all multiples of 8, as usual. Copies of more
  /// than Limits::max_decompressed_bytes in all are refused with InvalidDataError, which `where` begins: buffers may
  /// all be the same bytes.
  std::shared_ptr<const void> realign(const array::Schema& schema, const BatchHeader& header,
                                      std::shared_ptr<const void> owner, const char* where,
                                      std::vector<array::BufferView>* views);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::ipc
