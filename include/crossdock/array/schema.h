#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/type.h"
#include "crossdock/core/export.h"

namespace crossdock::array {

/// Keys may repeat and order is kept, as in the Arrow C data interface. Values may hold any bytes.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// Limits against hostile schemas: levels of nesting (a dictionary's values count as a level below their field), and
/// fields in all, dictionaries' values included.
inline constexpr int kMaxDepth = 64;
inline constexpr int kMaxFields = 1 << 16;
/// Buffers of one batch (without its dictionaries), those of views included. Of a schema's own, kMaxFields allows
/// fewer.
inline constexpr int kMaxBuffers = 1 << 20;

struct Field {
  std::string name;
  Type type;  ///< Of a dictionary-encoded field: the type of its indices, as in the C data interface.
  bool nullable = true;
  Metadata metadata;
  std::vector<Field> children;

  /// Dictionary-encoded: the values' field (name unused). Null otherwise.
  std::shared_ptr<const Field> dictionary;
  bool dictionary_ordered = false;
  /// Names the dictionary in IPC. Fields that share an id share the values. -1: not assigned yet.
  std::int64_t dictionary_id = -1;

  /// Deep; ignores what IPC doesn't keep: dictionary_id, and the name and nullability of dictionaries' values.
  CROSSDOCK_EXPORT bool operator==(const Field& other) const;
  /// The same, name and nullability apart: whether two dictionaries' values are of one type.
  CROSSDOCK_EXPORT bool same_values(const Field& other) const;
};

/// One node of a schema in preorder, dictionaries' values left out: what a codec walks beside nodes and buffers.
struct LayoutNode {
  TypeLayout type;
  TypeId id;
  bool nullable;
  std::int32_t n_children;
  std::int32_t fixed_size;  ///< FixedSizeList: elements per list. Else 0.
  /// Index of its first buffer among the batch's, not counting the variadic ones before it: exact only where
  /// !Schema::has_views(). Code for any schema walks with a BufferCursor (record_batch.h).
  std::int32_t first_buffer;
  std::int32_t dictionary_slot;  ///< Index among Schema::dictionaries(), -1 if it isn't dictionary-encoded.
  const Field* field;            ///< Within the schema; lives as long.
};

/// One dictionary-encoded field of a schema, in preorder. Fields that share an id have a slot each, with the same id
/// and the same `values` object. Dictionaries nested in the values are slots of `values`, not of this schema.
struct DictionarySlot {
  std::int64_t id;
  /// A schema of one field, so that a dictionary is a batch of one column.
  std::shared_ptr<const class Schema> values;
};

/// The schema of a stream of batches: immutable once made, shared freely between threads.
class CROSSDOCK_EXPORT Schema {
 public:
  /// Checks types and children's counts, and assigns ids to dictionaries that have none: unique over the whole tree,
  /// nested dictionaries included, and none that is given. Throws InvalidDataError that names the field's path; also if
  /// an id is given to different values, or a limit is passed.
  explicit Schema(std::vector<Field> fields, Metadata metadata = {});
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  const std::vector<Field>& fields() const noexcept { return fields_; }
  const Metadata& metadata() const noexcept { return metadata_; }

  /// Every node in preorder, without the root. Computed once.
  const std::vector<LayoutNode>& nodes() const noexcept { return nodes_; }
  /// Buffers of a batch, without the variadic ones of views.
  std::int32_t n_buffers() const noexcept { return n_buffers_; }
  /// Nodes of a view type, each with a number of variadic buffers that only a batch knows.
  std::int32_t n_variadic() const noexcept { return n_variadic_; }
  bool has_views() const noexcept { return n_variadic_ > 0; }
  const std::vector<DictionarySlot>& dictionaries() const noexcept { return dictionaries_; }
  /// The values' schema of the dictionary with this id, also within other dictionaries; null if no field names it.
  std::shared_ptr<const Schema> find_dictionary(std::int64_t id) const;

  bool operator==(const Schema& other) const { return fields_ == other.fields_ && metadata_ == other.metadata_; }
  /// A line per field, for people.
  std::string to_string() const;

 private:
  std::vector<Field> fields_;
  Metadata metadata_;
  std::vector<LayoutNode> nodes_;
  std::vector<DictionarySlot> dictionaries_;
  std::int32_t n_buffers_ = 0;
  std::int32_t n_variadic_ = 0;
};

/// Reads a schema (a struct, format "+s", is taken as a record batch's schema). `schema` stays the caller's and
/// unreleased. Throws InvalidDataError, or UnsupportedTypeError that names the field's path and the format string.
CROSSDOCK_EXPORT std::shared_ptr<const Schema> import_schema(const ArrowSchema& schema);

/// Writes a struct schema to `*out`; the caller releases it. On a throw `*out` is released (release == NULL).
/// Each child may be moved out and released by itself.
CROSSDOCK_EXPORT void export_schema(const Schema& schema, ArrowSchema* out);
CROSSDOCK_EXPORT void export_field(const Field& field, ArrowSchema* out);

}  // namespace crossdock::array
