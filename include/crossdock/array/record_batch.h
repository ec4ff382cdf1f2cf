#pragma once

#include <cstdint>
#include <memory>
#include <span>
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
  std::vector<Node> nodes;  ///< schema->nodes().size()
  /// schema->n_buffers(), and the variadic ones of each view right after its own two.
  std::vector<BufferView> buffers;
  /// How many variadic buffers each node of a view type has, in preorder: schema->n_variadic() numbers.
  std::vector<std::int64_t> variadic_counts;
  std::vector<std::shared_ptr<const RecordBatch>> dictionaries;  ///< One per schema->dictionaries(); one column each.
  std::shared_ptr<const void> owner;                             ///< Keeps every buffer alive.
  /// Of the IPC message that it came in, or is to go out in. The C data interface has no place for it: it goes from
  /// export_batch() to import_batch() of this library only.
  Metadata custom_metadata;

  std::int64_t device_id = -1;
  std::int32_t device_type = ARROW_DEVICE_CPU;
  void* sync_event = nullptr;  ///< Owned by `owner`. See ArrowDeviceArray.

  CROSSDOCK_EXPORT std::int64_t nbytes() const noexcept;  ///< Sum of the buffers' sizes, dictionaries not counted.

  /// True if there are as many nodes, variadic counts, buffers and dictionaries as the schema asks for.
  CROSSDOCK_EXPORT bool counts_fit() const noexcept;

  /// True if the buffers may be read by this process as they are: host memory of any kind, and no event to wait for.
  CROSSDOCK_EXPORT bool host_readable() const noexcept;
};

/// Walks a schema's nodes in preorder together with the buffers of a batch whose counts fit. A plain value; a copy
/// remembers a place.
class BufferCursor {
 public:
  explicit BufferCursor(std::span<const std::int64_t> variadic_counts) noexcept : counts_(variadic_counts.data()) {}

  /// Moves on to `node`, the next in preorder.
  void enter(const LayoutNode& node) noexcept {
    first_ = next_;
    n_variadic_ = 0;
    if (node.type.variadic) [[unlikely]]
      n_variadic_ = static_cast<std::size_t>(*counts_++);
    next_ += node.type.n_buffers + n_variadic_;
  }
  std::size_t first() const noexcept { return first_; }            ///< Index of the node's first buffer.
  std::size_t n_variadic() const noexcept { return n_variadic_; }  ///< Its variadic buffers, the last of its buffers.
  std::size_t end() const noexcept { return next_; }               ///< One past its last buffer.

 private:
  const std::int64_t* counts_;
  std::size_t first_ = 0;
  std::size_t n_variadic_ = 0;
  std::size_t next_ = 0;
};

/// How closely data is looked at.
enum class Validation : std::uint8_t {
  kStructure,  ///< check_structure: made always.
  kFull,       ///< check_full: for data of somebody who isn't trusted.
};

/// Whether check_full looks at a batch's dictionaries too. A stream's are shared by its batches: who checked them when
/// they came need not do it again with each batch.
enum class Dictionaries : std::uint8_t { kCheck, kTrust };

/// Checks counts, lengths, null counts, that every buffer is as large as its node's offset and length ask for, that the
/// first and last offsets of each variable-size node are in order and within what they point into, that the last run
/// end reaches to the end of its node, that children are long enough (the top level's: exactly num_rows), and that
/// dictionaries are there unless their column is empty or all null. After it, nothing out of bounds is reached by way
/// of lengths, of first and last offsets and of the last run end. What it doesn't look at: the offsets and run ends
/// between, unions' type ids and offsets, list views' offsets and sizes, the headers of views, indices of dictionaries,
/// and text; see check_full. Costs O(nodes), dictionaries' included, and reads at most two numbers per node; of a batch
/// that isn't host_readable(), none. Throws InvalidDataError that names the field's path.
CROSSDOCK_EXPORT void check_structure(const RecordBatch& batch);

/// check_structure, and everything that it leaves out, in every element that a node shows, dictionaries' too: counted
/// nulls are the bitmap's; offsets are in order; utf8 (of any kind) is UTF-8; dictionaries' indices are within them;
/// type ids are those of a union's children and dense offsets within them; run ends aren't null, are above 0 and each
/// above the one before; views lie within their buffers, with the prefix that they say and zeros after short ones; list
/// views lie within their child; decimals have no more digits than their precision; a date64 is a whole number of days
/// and a time is within a day; entries and keys of maps aren't null. Elements that are null may hold anything where the
/// format lets them: indices, text, views, decimals, dates, times. After it, a consumer that follows the format
/// reaches nothing out of bounds. Reads every buffer but other fixed-width values once or twice. Throws InvalidDataError that
/// names the field's path and the first bad element, InvalidArgumentError if the batch isn't host_readable().
CROSSDOCK_EXPORT void check_full(const RecordBatch& batch, Dictionaries dictionaries = Dictionaries::kCheck);

/// Takes over `*array`: a struct array whose children are the schema's fields, or, if `schema` has one field, an array
/// of that field's type as a batch of one column (the two always differ in their counts of buffers and children). On
/// success `*array` is marked released and the batch owns it; on a throw it is untouched and still the caller's. Done
/// on the host alone: of host memory the last offsets are read for the sizes of what they point into, and
/// check_structure is made; of other devices no byte is read. The null count of unions and run-end encoded arrays,
/// which have no nulls of their own, is taken as 0. A struct array with a validity buffer or an offset: an offset is
/// pushed down to the children; nulls at the top are refused, as record batches have none (host memory: the bits are
/// counted if null_count is unknown). Throws InvalidArgumentError (released already), InvalidDataError that names the
/// field, UnsupportedTypeError (a utf8 or binary column of any kind in memory that the host can't read, or that has an
/// event to wait for: not yet).
CROSSDOCK_EXPORT RecordBatch import_batch(std::shared_ptr<const Schema> schema, ArrowDeviceArray* array);

/// Gives the batch away as a struct array; the memory lives until `out` and every child moved out of it is released, on
/// whatever thread. One allocation, whatever the number of columns. A dictionary that isn't there goes out as an empty
/// one. Throws InvalidDataError if the batch's counts don't fit its schema, UnsupportedTypeError for views of a device;
/// then
/// `*out` is released.
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
/// added to `*copied_bytes`; so are the run ends of a run-end encoded node that starts after its first run's first
/// element, since run ends count from the start. Runs outside what is shown are cut off. Children of dense unions and
/// list views, into which any element may point, and the variadic buffers of views stay whole, but for
/// Offsets::kFromZero, which cuts those children to what is pointed into where every offset is within them. Without a
/// change to make, nothing is allocated. A dictionary that needs a change becomes a new object; others keep theirs.
/// Throws InvalidDataError; InvalidArgumentError if the batch isn't host_readable().
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
