#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/schema.h"
#include "crossdock/core/export.h"
#include "crossdock/device/memory.h"

namespace crossdock::array {

/// One array node's header, as in the C data interface.
struct Node {
  std::int64_t length = 0;      ///< Elements, from `offset` on.
  std::int64_t null_count = 0;  ///< Of these elements; -1: unknown. 0 for unions and run-end encoded nodes.
  std::int64_t offset = 0;      ///< Elements to skip; always 0 in data that came by IPC.
};

/// The size of a buffer that exists, but whose size is stored in memory that the host can't read, or can't read yet:
/// the bytes of text and binary columns, and variadic buffers. The C data interface needs no sizes, so such a buffer is
/// carried and exported unchanged. resolve_sizes() of the exchange layer (batch.h) reads the size.
inline constexpr std::int64_t kUnknownSize = -1;

/// A view of one buffer. An absent buffer is {nullptr, 0}.
struct BufferView {
  /// An address on the batch's device: the host may read it only if the batch is host_readable().
  const void* data = nullptr;
  std::int64_t size = 0;  ///< Bytes that may be read, or kUnknownSize.

  /// Returns false for a size that only the device's memory has.
  bool size_known() const noexcept { return size != kUnknownSize; }
};

/// A record batch: flat arrays of nodes and buffers in the schema's preorder. All buffers, dictionaries' too, are
/// memory of one device with one owner, and have the same pending work. The memory is read-only, as Arrow memory is
/// once exported. A plain movable value; not to be shared between threads while it is changed.
struct RecordBatch : device::Memory {
  std::shared_ptr<const Schema> schema;  ///< Never null in a batch that a function of this library returns.
  std::int64_t num_rows = 0;             ///< Also of a batch without columns.
  std::vector<Node> nodes;               ///< schema->nodes().size()
  /// schema->n_buffers() buffers, and the variadic buffers of each view directly after its own two.
  std::vector<BufferView> buffers;
  /// The number of variadic buffers of each node of a view type, in preorder: schema->n_variadic() numbers.
  std::vector<std::int64_t> variadic_counts;
  std::vector<std::shared_ptr<const RecordBatch>> dictionaries;  ///< One per schema->dictionaries(); one column each.
  /// Custom metadata of the IPC message of this batch, received or to be sent. The C data interface has no place for
  /// it: only this library's export_batch() and import_batch() pass it on.
  Metadata custom_metadata;

  /// For each node of a view type, in the order of variadic_counts, the sizes of its variadic buffers: int64 numbers in
  /// the device's memory, where an array of the C data interface must have them. Empty for batches on the host, whose
  /// sizes are written on export.
  std::vector<const void*> variadic_sizes{};

  /// Returns the sum of all known buffer sizes, without dictionaries.
  CROSSDOCK_EXPORT std::int64_t nbytes() const noexcept;
  /// True if the size of every buffer is known, dictionaries' too.
  CROSSDOCK_EXPORT bool sizes_known() const noexcept;

  /// True if the numbers of nodes, variadic counts, buffers and dictionaries are those that the schema asks for.
  CROSSDOCK_EXPORT bool counts_fit() const noexcept;

  /// True if this process may read the buffers now: host memory of any kind, and nothing pending.
  CROSSDOCK_EXPORT bool host_readable() const noexcept;

  /// Returns a top-level column by its name, as a Column<T>: batch.column<double>("celsius"). Defined in column.h,
  /// which says what T may be, and what the constructor of Column<T> throws. Throws NotFoundError, which lists the
  /// columns; InvalidArgumentError (a name that several columns have; a batch that isn't host_readable(): the message
  /// says what to call).
  template <class T>
  auto column(std::string_view name) const&;
  /// Returns a top-level column by its index, from 0. Throws InvalidArgumentError for an index that no column has, and
  /// otherwise as above.
  template <class T>
  auto column(std::size_t index) const&;
  // A column is a view: its batch must live.
  template <class T>
  void column(std::string_view name) const&& = delete;
  template <class T>
  void column(std::size_t index) const&& = delete;
};

/// Walks a schema's nodes in preorder together with the buffers of a batch, whose counts must fit. A plain value; a
/// copy remembers a position.
class BufferCursor {
 public:
  /// Starts before the first node. `variadic_counts` are those of the batch, and must outlive the cursor.
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

/// How thoroughly data is checked.
enum class Validation : std::uint8_t {
  kStructure,  ///< check_structure: always done.
  kFull,       ///< check_full: for data from an untrusted producer.
};

/// Whether check_full also checks a batch's dictionaries. The batches of a stream share their dictionaries: a caller
/// that checked them on arrival need not check them again for each batch.
enum class Dictionaries : std::uint8_t {
  kCheck,  ///< Checks the values of dictionaries, too.
  kTrust,  ///< Checks only that indices are within their dictionaries.
};

/// Checks the structure of a batch:
/// - counts, lengths and null counts;
/// - every buffer is as large as its node's offset and length ask for;
/// - the first and last offsets of each variable-size node are in order and within the data that they point into;
/// - the last run end reaches the end of its node;
/// - children are long enough (at the top level: exactly num_rows);
/// - dictionaries are present, unless their column is empty or all null.
///
/// After this check, no access by way of lengths, first and last offsets, or the last run end is out of bounds. It
/// doesn't check the offsets and run ends in between, unions' type ids and offsets, list views' offsets and sizes, the
/// headers of views, dictionary indices, and text; see check_full.
///
/// Costs O(nodes), dictionaries' included, and reads at most two numbers per node. For a batch that isn't
/// host_readable() it reads nothing, skips the checks that need data, and accepts unknown sizes. Throws
/// InvalidDataError, which names the field's path.
CROSSDOCK_EXPORT void check_structure(const RecordBatch& batch);

/// Does check_structure, and checks every element that a node shows, dictionaries' too:
/// - null counts are those of the bitmaps;
/// - offsets are in order;
/// - utf8 (of any kind) is UTF-8;
/// - dictionary indices are within their dictionaries;
/// - type ids are those of a union's children; dense offsets are within the children, and in order for each child;
/// - run ends aren't null, are above 0, and each is above the one before;
/// - views lie within their buffers, have the right prefix, and zeros after short values;
/// - list views lie within their child;
/// - decimals have no more digits than their precision;
/// - a date64 is a whole number of days, and a time is within a day;
/// - entries and keys of maps aren't null.
///
/// Null elements may hold any value where the format allows it: indices, text, views, decimals, dates, times. After
/// this check, a consumer that follows the format accesses nothing out of bounds. Reads each buffer once or twice, but
/// not the values of other fixed-width types. Throws InvalidDataError, which names the field's path and the first bad
/// element; InvalidArgumentError if the batch isn't host_readable().
CROSSDOCK_EXPORT void check_full(const RecordBatch& batch, Dictionaries dictionaries = Dictionaries::kCheck);

/// Takes ownership of `*array`: a struct array whose children are the schema's fields. If `schema` has one field,
/// `*array` may also be an array of that field's type, taken as a batch of one column (the two always differ in their
/// counts of buffers and children).
///
/// On success `*array` is marked released and the batch owns it. On a throw it is unchanged and the caller still owns
/// it. Its sync_event becomes the batch's event, valid as long as the batch's owner. Accepts any device type, also
/// unknown ones. Ignores reserved members.
///
/// Sizes: an array that export_batch() of this library exported keeps the buffer sizes that its batch had, even if the
/// memory has changed since. For other producers' memory that the host may read, reads the last offsets to get the
/// sizes of the buffers that they point into; in recycled memory and files, which can change, such a size never exceeds
/// the mapping. For other memory, and if there is an event to wait for, reads no byte and leaves those sizes unknown.
/// Does check_structure.
///
/// Nulls: the null count of unions and run-end encoded arrays, which have no nulls of their own, is taken as 0. If a
/// struct array has an offset, the offset is applied to the children. Nulls at the top level are refused, because
/// record batches have none; the bits of a validity buffer are counted if null_count is unknown.
///
/// Throws InvalidArgumentError for an array that is already released, InvalidDataError, which names the field, and
/// UnsupportedTypeError for an unknown null count of a struct with a validity buffer that the host can't read.
CROSSDOCK_EXPORT RecordBatch import_batch(std::shared_ptr<const Schema> schema, ArrowDeviceArray* array);

/// Exports the batch as a struct array. The memory and its event live until `out` and every child that was moved out of
/// it are released, on any thread. Makes one allocation, whatever the number of columns. A missing dictionary is
/// exported as an empty one.
///
/// Throws InvalidDataError if the batch's counts don't fit its schema or a dictionary is on another device;
/// UnsupportedTypeError for views in a device's memory without variadic_sizes; InvalidArgumentError for host memory
/// that a device's queue still works on (Arrow has no event for the CPU: wait first); and the error that the batch's
/// event carries. After a throw `*out` is released, and `batch` is unchanged.
CROSSDOCK_EXPORT void export_batch(RecordBatch&& batch, ArrowDeviceArray* out);
/// Exports a copy of the batch, which shares its memory.
CROSSDOCK_EXPORT void export_batch(const RecordBatch& batch, ArrowDeviceArray* out);

/// How normalized() treats offsets of a slice, which begin above 0.
enum class Offsets : std::uint8_t {
  kKeep,  ///< Keeps them, and the start of the data that they point into: nothing is copied.
  /// Writes new offsets, so that the data that they point into is cut at both ends: for batches that will be copied.
  kFromZero,
};

/// Returns the same batch in normal form, checked as by check_structure.
///
/// Every node's offset is 0 and its null_count is known. Children are exactly as long as their parents ask for. Every
/// buffer begins at the first byte needed, and its size is cut to the bytes needed (offsets as `offsets` says;
/// dictionaries' offsets are always kept). Buffers without bytes, and validity where nothing is null, become absent.
/// Runs outside the elements shown are cut off.
///
/// Copies the following, and adds their bytes to `*copied_bytes`: bitmaps whose first bit isn't at the start of a byte;
/// the run ends of a run-end encoded node that begins after the first element of its first run, because run ends count
/// from the start. The children of dense unions and list views, into which any element may point, and the variadic
/// buffers of views stay whole. Exception: Offsets::kFromZero cuts those children to the part that is pointed into, if
/// every offset is within them. The offsets that it rewrites are new, and aren't counted.
///
/// With Offsets::kKeep, allocates nothing if there is nothing to change. A dictionary that needs a change becomes a new
/// object; other dictionaries stay the same object. Throws InvalidDataError; InvalidArgumentError if the batch isn't
/// host_readable().
CROSSDOCK_EXPORT RecordBatch normalized(RecordBatch batch, std::int64_t* copied_bytes,
                                        Offsets offsets = Offsets::kKeep);

/// Returns the top-level columns at `indices`, in that order, as a batch of `schema`, which the caller made with
/// select_fields. Throws InvalidArgumentError if indices and schema don't fit the batch.
CROSSDOCK_EXPORT RecordBatch select_columns(const RecordBatch& batch, std::shared_ptr<const Schema> schema,
                                            const std::vector<int>& indices);
/// Returns the schema of some top-level fields by name. Throws NotFoundError, which lists the existing names;
/// InvalidArgumentError if a name is ambiguous.
CROSSDOCK_EXPORT std::shared_ptr<const Schema> select_fields(const Schema& schema,
                                                             const std::vector<std::string>& names,
                                                             std::vector<int>* indices);

}  // namespace crossdock::array
