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

/// Limits against hostile schemas: levels of nesting (a dictionary's values count as one level below their field), and
/// the total number of fields, with those of dictionaries' values.
inline constexpr int kMaxDepth = 64;
inline constexpr int kMaxFields = 1 << 16;
/// Maximum number of buffers of one batch (without its dictionaries), with those of views. A schema's own buffers are
/// fewer, because of kMaxFields.
inline constexpr int kMaxBuffers = 1 << 20;

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
  std::int32_t fixed_size;  ///< FixedSizeList: elements per list. Else 0.
  /// Index of its first buffer in the batch, not counting variadic buffers before it: exact only if
  /// !Schema::has_views(). Code for any schema walks with a BufferCursor (record_batch.h).
  std::int32_t first_buffer;
  std::int32_t dictionary_slot;  ///< Index among Schema::dictionaries(), -1 if it isn't dictionary-encoded.
  const Field* field;            ///< Within the schema, and valid as long as it.
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
CROSSDOCK_EXPORT void export_field(const Field& field, ArrowSchema* out);

}  // namespace crossdock::array
