#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/schema.h"
#include "crossdock/core/export.h"

namespace crossdock::array {

/// One array node's header, as in the C data interface. null_count -1: unknown.
struct Node {
  std::int64_t length = 0;
  std::int64_t null_count = 0;
  std::int64_t offset = 0;  ///< Elements to skip; always 0 in what came by IPC.
};

/// A view of one buffer. `data` is a device pointer if the batch is on a device. An absent buffer is {nullptr, 0}.
struct BufferView {
  const void* data = nullptr;
  std::int64_t size = 0;  ///< Bytes that may be read.
};

/// A record batch: flat arrays of nodes and buffers in the schema's preorder, and one owner that keeps the memory alive.
/// Read-only, as Arrow memory is once exported. A plain movable value; not shared between threads while it is changed.
struct RecordBatch {
  std::shared_ptr<const Schema> schema;
  std::int64_t num_rows = 0;
  std::vector<Node> nodes;                                      ///< schema->nodes().size()
  std::vector<BufferView> buffers;                              ///< schema->n_buffers()
  std::vector<std::shared_ptr<const RecordBatch>> dictionaries;  ///< One per schema->dictionaries(); one column each.
  std::shared_ptr<const void> owner;                            ///< Keeps every buffer alive.

  std::int64_t device_id = -1;
  std::int32_t device_type = ARROW_DEVICE_CPU;
  void* sync_event = nullptr;  ///< Owned by `owner`. See ArrowDeviceArray.

  std::int64_t nbytes() const noexcept;  ///< Sum of the buffers' sizes, dictionaries not counted.
};

/// How far imported or received arrays are checked.
/// kStructure: counts, null buffers, sizes against lengths, first and last offsets: nothing out of bounds is dereferenced later by Crossdock.
/// kFull is issue 4's.

/// Takes over `*array` (a struct array, or any array as a batch of one column if `schema` has one field and the array isn't a
/// struct): on success `*array` is marked released and the batch owns it; on a throw it is untouched and still the caller's.
/// The host's offsets buffers are read for the sizes of what they point into; no other byte is.
/// A struct array with a validity buffer or an offset: an offset is pushed down to the children; nulls at the top are
/// refused, as record batches have none. Throws InvalidDataError that names the field.
CROSSDOCK_EXPORT RecordBatch import_batch(std::shared_ptr<const Schema> schema, ArrowDeviceArray* array);

/// Gives the batch away as a struct array; the memory lives until `out` and every child moved out of it is released, on whatever
/// thread. One allocation, whatever the number of columns. On a throw `*out` is released.
CROSSDOCK_EXPORT void export_batch(RecordBatch batch, ArrowDeviceArray* out);

/// The same batch with every node's offset 0, every buffer pointing at the first byte needed and its size cut to what is needed
/// (offsets may start above 0, what they point into isn't moved). Bitmaps whose first bit is not at the start of a byte are copied, and added to
/// `*copied_bytes`. Host memory only.
CROSSDOCK_EXPORT RecordBatch normalized(RecordBatch batch, std::int64_t* copied_bytes);

/// The columns at `indices` of the top level, in that order, as a batch of `schema` (which the caller made with select_fields).
CROSSDOCK_EXPORT RecordBatch select_columns(const RecordBatch& batch, std::shared_ptr<const Schema> schema,
                                            const std::vector<int>& indices);
/// The schema of some top-level fields by name. Throws NotFoundError that lists what there is, InvalidArgumentError if a name is ambiguous.
CROSSDOCK_EXPORT std::shared_ptr<const Schema> select_fields(const Schema& schema, const std::vector<std::string>& names,
                                                             std::vector<int>* indices);

}  // namespace crossdock::array
