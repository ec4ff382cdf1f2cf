#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/core/export.h"

namespace crossdock::array {

/// All logical types of the Arrow columnar format.
enum class TypeId : std::uint8_t {
  kNull,
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kDecimal32,
  kDecimal64,
  kDecimal128,
  kDecimal256,
  kDate32,
  kDate64,
  kTime32,
  kTime64,
  kTimestamp,
  kDuration,
  kUtf8,
  kLargeUtf8,
  kBinary,
  kLargeBinary,
  kFixedSizeBinary,
  kList,
  kLargeList,
  kFixedSizeList,
  kStruct,
  kMap,
  kIntervalMonths,
  kIntervalDayTime,
  kIntervalMonthDayNano,
  kSparseUnion,
  kDenseUnion,
  kRunEndEncoded,
  kUtf8View,
  kBinaryView,
  kListView,
  kLargeListView,
};

/// One past the last TypeId.
inline constexpr int kTypeCount = static_cast<int>(TypeId::kLargeListView) + 1;

/// The unit of times, timestamps and durations.
enum class TimeUnit : std::uint8_t { kSecond, kMilli, kMicro, kNano };

/// A type without its children: those are fields, see schema.h. A plain value.
struct Type {
  TypeId id = TypeId::kNull;
  TimeUnit unit = TimeUnit::kSecond;  ///< Time, Timestamp, Duration.
  std::int32_t precision = 0;         ///< Decimal.
  std::int32_t scale = 0;             ///< Decimal.
  std::int32_t fixed_size = 0;        ///< FixedSizeBinary: bytes; FixedSizeList: elements.
  bool keys_sorted = false;           ///< Map.
  std::string timezone{};             ///< Timestamp; empty means none.
  /// Unions: the type id of the elements of child i. One per child, all different, 0 to 127.
  std::vector<std::int8_t> type_codes{};

  bool operator==(const Type&) const = default;
};

/// Content of a buffer. The order of a type's buffers is that of the columnar format.
enum class BufferKind : std::uint8_t {
  kValidity,           ///< One bit per element, may be absent.
  kBits,               ///< Bool values, one bit per element.
  kFixed,              ///< `width` bytes per element.
  kOffsets32,          ///< length + 1 int32; none needed at length 0.
  kOffsets64,          ///< length + 1 int64; none needed at length 0.
  kBytes,              ///< The data that the offsets before it point into.
  kTypeIds,            ///< Unions: one int8 per element, the type id of its child.
  kUnionOffsets,       ///< Dense unions: one int32 per element, its index in the child.
  kViews,              ///< 16 bytes per element: length, and the bytes themselves or their place.
  kListViewOffsets32,  ///< One int32 per element: index of its first element in the child.
  kListViewOffsets64,  ///< One int64 per element.
  kListViewSizes32,    ///< One int32 per element: its number of elements of the child.
  kListViewSizes64,    ///< One int64 per element.
};

/// Layout of a type: the buffers and the number of children of its arrays.
struct TypeLayout {
  std::uint8_t n_buffers = 0;
  BufferKind buffers[3] = {};
  std::int32_t width = 0;       ///< Bytes per element of the kFixed buffer.
  std::int32_t n_children = 0;  ///< -1: any number (struct, unions).
  /// Views: any number of byte buffers follow these, as many as RecordBatch::variadic_counts says.
  bool variadic = false;

  /// True if the first buffer is a validity bitmap. A type without one has no nulls of its own, except for the null
  /// type.
  constexpr bool has_validity() const noexcept { return n_buffers > 0 && buffers[0] == BufferKind::kValidity; }
};

/// Returns the bytes per element of a buffer. `width` is that of TypeLayout, for kFixed. Returns 0 for kinds whose size
/// isn't a multiple of the length: bits, offsets (length + 1 of them) and bytes.
constexpr std::int32_t element_width(BufferKind kind, std::int32_t width) noexcept {
  switch (kind) {
    case BufferKind::kFixed: return width;
    case BufferKind::kTypeIds: return 1;
    case BufferKind::kUnionOffsets:
    case BufferKind::kListViewOffsets32:
    case BufferKind::kListViewSizes32: return 4;
    case BufferKind::kListViewOffsets64:
    case BufferKind::kListViewSizes64: return 8;
    case BufferKind::kViews: return 16;
    case BufferKind::kValidity:
    case BufferKind::kBits:
    case BufferKind::kOffsets32:
    case BufferKind::kOffsets64:
    case BufferKind::kBytes: break;
  }
  return 0;
}

/// An address that is a multiple of this suits every buffer.
inline constexpr std::uint32_t kMostAlignment = 8;

/// Returns the number that a buffer's address must be a multiple of, so that its elements can be read in place: 1, 2, 4
/// or 8. `width` as in TypeLayout. Larger decimals and intervals consist of numbers of 8 bytes.
constexpr std::uint32_t element_alignment(BufferKind kind, std::int32_t width) noexcept {
  if (kind == BufferKind::kOffsets32) return 4;
  if (kind == BufferKind::kOffsets64) return 8;
  const auto bytes = static_cast<std::uint32_t>(element_width(kind, width));
  if (bytes == 0) return 1;  // bits, bytes, and elements of no bytes
  const std::uint32_t power = bytes & (0 - bytes);
  return power < kMostAlignment ? power : kMostAlignment;
}

/// Returns the layout of a type; defined for every TypeId. Doesn't allocate. Thread-safe.
CROSSDOCK_EXPORT TypeLayout type_layout(const Type& type) noexcept;

/// Returns a name for messages, as in "timestamp[us, UTC]", "decimal128(9, 2)".
CROSSDOCK_EXPORT std::string type_name(const Type& type);

/// Keys may repeat and order is kept, as in the Arrow C data interface. Values may hold any bytes.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// Limits against hostile schemas: levels of nesting (a dictionary's values count as one level below their field), and
/// the total number of fields, with those of dictionaries' values.
inline constexpr int kMaxDepth = 64;
/// Maximum number of fields of one schema, at all levels, with those of dictionaries' values.
inline constexpr int kMaxFields = 1 << 16;
/// Maximum number of buffers of one batch (without its dictionaries), with those of views. A schema's own buffers are
/// fewer, because of kMaxFields.
inline constexpr int kMaxBuffers = 1 << 20;

/// A named column: its type, and what belongs to it. A plain value.
struct Field {
  std::string name;
  Type type;  ///< For a dictionary-encoded field: the type of its indices, as in the C data interface.
  bool nullable = true;
  Metadata metadata;
  std::vector<Field> children;

  /// For a dictionary-encoded field: the field of the values (name unused). Null otherwise.
  std::shared_ptr<const Field> dictionary;
  bool dictionary_ordered = false;
  /// Names the dictionary in IPC. Fields that share an id share the values. -1: not assigned yet.
  std::int64_t dictionary_id = -1;

  /// Compares deeply. Ignores properties that IPC doesn't keep: dictionary_id, and the name and nullability of
  /// dictionaries' values.
  CROSSDOCK_EXPORT bool operator==(const Field& other) const;
  /// The same, but also ignores name and nullability: true if the values of two dictionaries are of one type.
  CROSSDOCK_EXPORT bool same_values(const Field& other) const;
};

/// One node of a schema in preorder, without dictionaries' values. Codecs walk these together with nodes and buffers.
struct LayoutNode {
  TypeLayout type;
  TypeId id;
  bool nullable;
  std::int32_t n_children;
  std::int32_t n_nodes;     ///< Itself and all nodes below it: those directly after it in preorder.
  std::int32_t fixed_size;  ///< FixedSizeList: elements per list. Else 0.
  /// Index of its first buffer in the batch, not counting variadic buffers before it: exact only if
  /// !Schema::has_views(). Code for any schema walks with a BufferCursor (record_batch.h).
  std::int32_t first_buffer;
  std::int32_t dictionary_slot;  ///< Index among Schema::dictionaries(), -1 if it isn't dictionary-encoded.
  const Field* field;            ///< Within the schema, and valid as long as it.
  /// Of a node with a validity buffer, one buffer of elements of equal size, and no children, as most are: the bits of
  /// an element. Else 0. Code that runs for each batch asks this first.
  std::int64_t element_bits;
};

/// One dictionary-encoded field of a schema, in preorder. Fields that share an id have one slot each, with the same id
/// and the same `values` object. Dictionaries nested in the values are slots of `values`, not of this schema.
struct DictionarySlot {
  std::int64_t id;
  /// A schema of one field, so that a dictionary is a batch of one column.
  std::shared_ptr<const class Schema> values;
};

/// The schema of a stream of batches: immutable once made, shared freely between threads.
class CROSSDOCK_EXPORT Schema {
 public:
  /// Checks types and numbers of children. Assigns ids to dictionaries that have none: unique in the whole tree, nested
  /// dictionaries included, and different from all given ids. Throws InvalidDataError, which names the field's path;
  /// also if an id is given to different values, or a limit is exceeded.
  explicit Schema(std::vector<Field> fields, Metadata metadata = {});
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  const std::vector<Field>& fields() const noexcept { return fields_; }
  const Metadata& metadata() const noexcept { return metadata_; }
  /// Returns the index of the top-level field of this name. Throws NotFoundError, which lists the names that exist;
  /// InvalidArgumentError if several fields have it.
  std::size_t index_of(std::string_view name) const;

  /// Every node in preorder, without the root. Computed once.
  const std::vector<LayoutNode>& nodes() const noexcept { return nodes_; }
  /// Number of buffers of a batch, without the variadic ones of views.
  std::int32_t n_buffers() const noexcept { return n_buffers_; }
  /// Number of nodes of a view type. Each has a number of variadic buffers that differs between batches.
  std::int32_t n_variadic() const noexcept { return n_variadic_; }
  bool has_views() const noexcept { return n_variadic_ > 0; }
  const std::vector<DictionarySlot>& dictionaries() const noexcept { return dictionaries_; }
  /// Returns the values' schema of the dictionary with this id, also of a dictionary within another one; null if no
  /// field names it.
  std::shared_ptr<const Schema> find_dictionary(std::int64_t id) const;

  bool operator==(const Schema& other) const { return fields_ == other.fields_ && metadata_ == other.metadata_; }
  /// Returns a readable text, one line per field.
  std::string to_string() const;

 private:
  std::vector<Field> fields_;
  Metadata metadata_;
  std::vector<LayoutNode> nodes_;
  std::vector<DictionarySlot> dictionaries_;
  std::int32_t n_buffers_ = 0;
  std::int32_t n_variadic_ = 0;
};

/// Reads a schema: a struct (format "+s") is taken as a record batch's schema. The caller keeps ownership of `schema`,
/// which is not released. Throws InvalidDataError, or UnsupportedTypeError, which names the field's path and the format
/// string.
CROSSDOCK_EXPORT std::shared_ptr<const Schema> import_schema(const ArrowSchema& schema);

/// Writes a struct schema to `*out`; the caller releases it. On a throw `*out` is released (release == NULL).
/// Each child may be moved out and released separately.
CROSSDOCK_EXPORT void export_schema(const Schema& schema, ArrowSchema* out);
/// Writes the schema of one field to `*out`, with the same rules.
CROSSDOCK_EXPORT void export_field(const Field& field, ArrowSchema* out);

}  // namespace crossdock::array
