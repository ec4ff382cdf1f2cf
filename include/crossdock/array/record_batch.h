#pragma once

#include <cstdint>
#include <memory>
#include <string>
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

/// A record batch: flat arrays of nodes and buffers in the schema's preorder, and one owner that keeps the memory
/// alive. Read-only, as Arrow memory is once exported. A plain movable value; not shared between threads while it is
/// changed.
struct RecordBatch {
  std::shared_ptr<const Schema> schema;
  std::int64_t num_rows = 0;
  std::vector<Node> nodes;                                       ///< schema->nodes().size()
  std::vector<BufferView> buffers;                               ///< schema->n_buffers()
  std::vector<std::shared_ptr<const RecordBatch>> dictionaries;  ///< One per schema->dictionaries(); one column each.
  std::shared_ptr<const void> owner;                             ///< Keeps every buffer alive.

  std::int64_t device_id = -1;
  std::int32_t device_type = ARROW_DEVICE_CPU;
  void* sync_event = nullptr;  ///< Owned by `owner`. See ArrowDeviceArray.

  CROSSDOCK_EXPORT std::int64_t nbytes() const noexcept;  ///< Sum of the buffers' sizes, dictionaries not counted.

  /// True if the buffers may be read by this process as they are: host memory of any kind, and no event to wait for.
  CROSSDOCK_EXPORT bool host_readable() const noexcept;
};

/// Checks counts, lengths, null counts, that every buffer is as large as its node's offset and length ask for, that the
/// first and last offsets of each variable-size node are in order and within what they point into, that children are
/// long enough (the top level's: exactly num_rows), and that dictionaries are there unless their column is empty or all
/// null. After it, nothing out of bounds is reached by way of lengths and of first and last offsets; the offsets
/// between are not looked at. Costs O(nodes), dictionaries' included, and reads at most two offsets per node; of a
/// batch that isn't host_readable(), none. Throws InvalidDataError that names the field's path.
CROSSDOCK_EXPORT void check_structure(const RecordBatch& batch);

/// Takes over `*array`: a struct array whose children are the schema's fields, or, if `schema` has one field, an array
/// of that field's type as a batch of one column (the two always differ in their counts of buffers and children). On
/// success `*array` is marked released and the batch owns it; on a throw it is untouched and still the caller's. Done
/// on the host alone: of host memory the last offsets are read for the sizes of what they point into, and
/// check_structure is made; of other devices no byte is read. A struct array with a validity buffer or an offset: an
/// offset is pushed down to the children; nulls at the top are refused, as record batches have none (host memory: the
/// bits are counted if null_count is unknown). Throws InvalidArgumentError (released already), InvalidDataError that
/// names the field, UnsupportedTypeError (a (large) utf8 or binary column in memory that the host can't read, or that
/// has an event to wait for: not yet).
CROSSDOCK_EXPORT RecordBatch import_batch(std::shared_ptr<const Schema> schema, ArrowDeviceArray* array);

/// Gives the batch away as a struct array; the memory lives until `out` and every child moved out of it is released, on
/// whatever thread. One allocation, whatever the number of columns. A dictionary that isn't there goes out as an empty
/// one. Throws InvalidDataError if the batch has not as many nodes, buffers and dictionaries as its schema; then `*out`
/// is released.
CROSSDOCK_EXPORT void export_batch(RecordBatch batch, ArrowDeviceArray* out);

/// What normalized() does with offsets of a slice, which start above 0.
enum class Offsets : std::uint8_t {
  kKeep,  ///< They stay as they are, and so does the start of what they point into: nothing is copied.
  /// They are written anew, so that what they point into is cut at both ends: for batches that will be copied.
  kFromZero,
};

/// The same batch, checked as by check_structure, with every node's offset 0 and null_count known, children exactly as
/// long as their parents ask for, every buffer pointing at the first byte needed and its size cut to what is needed
/// (offsets as `offsets` says; dictionaries' are always kept). Buffers of no bytes, and
/// validity where nothing is null, become absent. Bitmaps whose first bit is not at the start of a byte are copied, and
/// added to `*copied_bytes`. Without a change to make, nothing is allocated. A dictionary that needs a change becomes a
/// new object; others keep theirs. Throws InvalidDataError; InvalidArgumentError if the batch isn't host_readable().
CROSSDOCK_EXPORT RecordBatch normalized(RecordBatch batch, std::int64_t* copied_bytes,
                                        Offsets offsets = Offsets::kKeep);

/// The columns at `indices` of the top level, in that order, as a batch of `schema` (which the caller made with
/// select_fields). Throws InvalidArgumentError if indices and schema don't fit the batch.
CROSSDOCK_EXPORT RecordBatch select_columns(const RecordBatch& batch, std::shared_ptr<const Schema> schema,
                                            const std::vector<int>& indices);
/// The schema of some top-level fields by name. Throws NotFoundError that lists what there is, InvalidArgumentError if
/// a name is ambiguous.
CROSSDOCK_EXPORT std::shared_ptr<const Schema> select_fields(const Schema& schema,
                                                             const std::vector<std::string>& names,
                                                             std::vector<int>* indices);

}  // namespace crossdock::array
