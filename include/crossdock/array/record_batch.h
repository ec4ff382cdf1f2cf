#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/schema.h"
#include "crossdock/core/export.h"
#include "crossdock/device/device.h"
#include "crossdock/device/event.h"
#include "crossdock/device/queue.h"

namespace crossdock::array {

/// One array node's header, as in the C data interface. null_count -1: unknown.
struct Node {
  std::int64_t length = 0;
  std::int64_t null_count = 0;
  std::int64_t offset = 0;  ///< Elements to skip; always 0 in what came by IPC.
};

/// The size of a buffer that is there, where that stands in memory which the host can't read, or not yet: the bytes of
/// text and binary columns, and variadic buffers. The C data interface needs no sizes, so such a buffer is carried and
/// exported as it is; resolve_sizes() of the exchange layer (batch.h) finds it out.
inline constexpr std::int64_t kUnknownSize = -1;

/// A view of one buffer. `data` is a device pointer if the batch is on a device. An absent buffer is {nullptr, 0}.
struct BufferView {
  const void* data = nullptr;
  std::int64_t size = 0;  ///< Bytes that may be read, or kUnknownSize.

  bool size_known() const noexcept { return size != kUnknownSize; }
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

  device::Device device;  ///< Where every buffer is, dictionaries' too.
  /// Work that must be done, or be ordered before, what touches the buffers, dictionaries' too.
  device::Event event;
  std::optional<device::Queue> queue{};  ///< The queue that this work is on, if it is known.
  /// For each node of a view type, as variadic_counts, the sizes of its variadic buffers: int64 numbers in the device's
  /// memory, which an array of the C data interface must have there. Empty for batches on the host, whose sizes are
  /// written on export.
  std::vector<const void*> variadic_sizes{};

  /// Sum of the buffers' sizes that are known, dictionaries not counted.
  CROSSDOCK_EXPORT std::int64_t nbytes() const noexcept;
  /// True if the size of every buffer is known, dictionaries' too.
  CROSSDOCK_EXPORT bool sizes_known() const noexcept;

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
/// and text; see check_full. Costs O(nodes), dictionaries' included, and reads at most two numbers per node. Of a batch
/// that isn't host_readable() it reads none, leaves out what would need them, and lets sizes be unknown. Throws
/// InvalidDataError that names the field's path.
CROSSDOCK_EXPORT void check_structure(const RecordBatch& batch);

/// check_structure, and everything that it leaves out, in every element that a node shows, dictionaries' too: counted
/// nulls are the bitmap's; offsets are in order; utf8 (of any kind) is UTF-8; dictionaries' indices are within them;
/// type ids are those of a union's children, and dense offsets within them and in order for each; run ends aren't null,
/// are above 0 and each above the one before; views lie within their buffers, with the prefix that they say and zeros
/// after short ones; list views lie within their child; decimals have no more digits than their precision; a date64 is
/// a whole number of days and a time is within a day; entries and keys of maps aren't null. Elements that are null may
/// hold anything where the format lets them: indices, text, views, decimals, dates, times. After it, a consumer that
/// follows the format reaches nothing out of bounds. Reads every buffer but other fixed-width values once or twice.
/// Throws InvalidDataError that names the field's path and the first bad element, InvalidArgumentError if the batch
/// isn't host_readable().
CROSSDOCK_EXPORT void check_full(const RecordBatch& batch, Dictionaries dictionaries = Dictionaries::kCheck);

/// Takes over `*array`: a struct array whose children are the schema's fields, or, if `schema` has one field, an array
/// of that field's type as a batch of one column (the two always differ in their counts of buffers and children). On
/// success `*array` is marked released and the batch owns it; on a throw it is untouched and still the caller's. Its
/// sync_event becomes the batch's event, valid as long as the batch's owner. Any device type is taken, those without a
/// name too; reserved members are ignored.
///
/// What export_batch() of this library exported keeps the buffers' sizes that the batch had, whatever its memory says
/// meanwhile. Of other producers' memory that the host may read, the last offsets are read for the sizes of what they
/// point into (no further than the mapping goes in recycled memory and files, which can change); of other memory, and
/// where there is an event to wait for, no byte is read and those sizes are unknown. check_structure is made. The
/// null count of unions and run-end encoded arrays, which have no nulls of their own, is taken as 0. A struct array
/// with a validity buffer or an offset: an offset is pushed down to the children; nulls at the top are refused, as
/// record batches have none (the bits are counted if null_count is unknown). Throws InvalidArgumentError (released
/// already), InvalidDataError that names the field, UnsupportedTypeError (an unknown null count of a struct with a
/// validity buffer that the host can't read).
CROSSDOCK_EXPORT RecordBatch import_batch(std::shared_ptr<const Schema> schema, ArrowDeviceArray* array);

/// Gives the batch away as a struct array; the memory, and its event, live until `out` and every child moved out of it
/// is released, on whatever thread. One allocation, whatever the number of columns. A dictionary that isn't there goes
/// out as an empty one. Throws InvalidDataError if the batch's counts don't fit its schema or a dictionary is on
/// another device, UnsupportedTypeError for views in a device's memory without variadic_sizes, InvalidArgumentError for
/// host memory that a device's queue still works on (Arrow has no event for the CPU's: wait first), and the failure
/// that its event carries; then `*out` is released.
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
