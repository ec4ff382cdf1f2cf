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

/// All logical types of the Arrow columnar format. Numbers are little-endian.
enum class TypeId : std::uint8_t {
  kNull,                  ///< Nulls alone: no buffers.
  kBool,                  ///< Bits, least significant first.
  kInt8,                  ///< 1 byte, signed.
  kInt16,                 ///< 2 bytes, signed.
  kInt32,                 ///< 4 bytes, signed.
  kInt64,                 ///< 8 bytes, signed.
  kUInt8,                 ///< 1 byte.
  kUInt16,                ///< 2 bytes.
  kUInt32,                ///< 4 bytes.
  kUInt64,                ///< 8 bytes.
  kFloat16,               ///< IEEE 754, 2 bytes.
  kFloat32,               ///< IEEE 754, 4 bytes.
  kFloat64,               ///< IEEE 754, 8 bytes.
  kDecimal32,             ///< 4 bytes: digits with Type::precision and Type::scale.
  kDecimal64,             ///< 8 bytes, likewise.
  kDecimal128,            ///< 16 bytes, likewise.
  kDecimal256,            ///< 32 bytes, likewise.
  kDate32,                ///< 4 bytes: days since 1970-01-01.
  kDate64,                ///< 8 bytes: ms since 1970-01-01, a whole number of days.
  kTime32,                ///< 4 bytes: seconds or ms since midnight (Type::unit).
  kTime64,                ///< 8 bytes: us or ns since midnight (Type::unit).
  kTimestamp,             ///< 8 bytes: time since 1970-01-01 in Type::unit; in UTC if there is a Type::timezone.
  kDuration,              ///< 8 bytes in Type::unit.
  kUtf8,                  ///< Text with offsets of 4 bytes: at most 2 GiB in one node.
  kLargeUtf8,             ///< Text with offsets of 8 bytes.
  kBinary,                ///< Bytes with offsets of 4 bytes: at most 2 GiB in one node.
  kLargeBinary,           ///< Bytes with offsets of 8 bytes.
  kFixedSizeBinary,       ///< Type::fixed_size bytes.
  kList,                  ///< Lists with offsets of 4 bytes into the one child.
  kLargeList,             ///< Lists with offsets of 8 bytes.
  kFixedSizeList,         ///< Type::fixed_size elements of the one child each.
  kStruct,                ///< An element of each child, which are as long as the parent.
  kMap,                   ///< Lists of entries: one child, a struct of keys and values.
  kIntervalMonths,        ///< 4 bytes: months.
  kIntervalDayTime,       ///< 8 bytes: days and ms, 4 bytes each.
  kIntervalMonthDayNano,  ///< 16 bytes: months and days, 4 bytes each, and ns.
  kSparseUnion,           ///< A type id per element; children are as long as the parent.
  kDenseUnion,            ///< A type id and an offset into its child per element.
  kRunEndEncoded,         ///< Two children: run ends and values.
  kUtf8View,              ///< Text as views of 16 bytes, with any number of buffers.
  kBinaryView,            ///< Bytes as views of 16 bytes, likewise.
  kListView,              ///< Lists with an offset and a size of 4 bytes each, in any order.
  kLargeListView,         ///< Lists with an offset and a size of 8 bytes each.
};

/// One past the last TypeId.
inline constexpr int kTypeCount = static_cast<int>(TypeId::kLargeListView) + 1;

/// The unit of times, timestamps and durations.
enum class TimeUnit : std::uint8_t {
  kSecond,  ///< 1 s.
  kMilli,   ///< 1 ms.
  kMicro,   ///< 1 us.
  kNano,    ///< 1 ns.
};

/// A type without its children: those are fields, see schema.h. A plain value.
struct Type {
  TypeId id = TypeId::kNull;          ///< Decides which of the others have a meaning; the rest stay at their defaults.
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
  std::uint8_t n_buffers = 0;   ///< 0 to 3, without the variadic ones.
  BufferKind buffers[3] = {};   ///< The first `n_buffers` have a meaning.
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
  std::string name;      ///< May be empty, and several fields may have it.
  Type type;             ///< For a dictionary-encoded field: the type of its indices, as in the C data interface.
  bool nullable = true;  ///< Whether elements may be null; if not, nothing checks that none is.
  Metadata metadata;     ///< Of the field; that of an extension type is here, too.
  std::vector<Field> children;  ///< As many as the type asks for; none for a dictionary-encoded field.

  /// For a dictionary-encoded field: the field of the values (name unused). Null otherwise.
  std::shared_ptr<const Field> dictionary;
  bool dictionary_ordered = false;  ///< The order of the dictionary's values has a meaning.
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
  TypeLayout type;          ///< Of a dictionary-encoded node, that of its indices.
  TypeId id;                ///< The type of `type`.
  bool nullable;            ///< As Field::nullable.
  std::int32_t n_children;  ///< Direct ones.
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
  std::int64_t id;  ///< As Field::dictionary_id, assigned.
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

  /// The top-level fields, with the ids of their dictionaries. Valid as long as the schema.
  const std::vector<Field>& fields() const noexcept { return fields_; }
  /// The metadata of the schema itself.
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
  /// True if batches have variadic buffers.
  bool has_views() const noexcept { return n_variadic_ > 0; }
  /// The dictionary-encoded fields, in preorder, as RecordBatch::dictionaries.
  const std::vector<DictionarySlot>& dictionaries() const noexcept { return dictionaries_; }
  /// Returns the values' schema of the dictionary with this id, also of a dictionary within another one; null if no
  /// field names it.
  std::shared_ptr<const Schema> find_dictionary(std::int64_t id) const;

  /// Compares fields, as Field does, and metadata, in their order.
  bool operator==(const Schema& other) const;
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
