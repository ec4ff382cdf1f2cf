#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace crossdock::ipc::testing {

using Bytes = std::vector<std::byte>;

/// One thing in a flatbuffer that a hostile writer could have left out or written otherwise.
struct Place {
  /// "Field.nullable", of a table or struct. Within a vector "Union.type_ids[]"; how many elements it (or a text) has,
  /// "Union.type_ids#". Tables that are elements are places of their own: "Schema.fields[]" is where such a one is.
  std::string name;
  bool is_reference;   ///< An offset to a table, vector or text, not a number.
  std::size_t width;   ///< Bytes; 0 of a struct in a table, which can only be left out.
  std::size_t at;      ///< From the buffer's start; 0: it was left out, and stands for its default.
  std::size_t table;   ///< Of a table's field: where the table is. Else 0.
  std::size_t offset;  ///< Of a table's field: its own in the vtable.
};

/// Finds every place of a well-formed flatbuffer, by what flatc says of the schema files: so no field of any table can
/// be forgotten. And changes it, which may leave a flatbuffer that is not well-formed.
class MetadataMutator {
 public:
  /// `root` is "Message" or "Footer".
  explicit MetadataMutator(std::string_view root);

  std::vector<Place> places(const Bytes& flatbuffer) const;
  /// The names of all fields of all tables that `root` can hold.
  std::set<std::string> fields_of_tables() const;

  /// Leaves the field out. For fields of tables only.
  static Bytes without(Bytes flatbuffer, const Place& place);
  /// Writes `value`, cut to the place's width; a field that was left out is added.
  static Bytes with(Bytes flatbuffer, const Place& place, std::int64_t value);

 private:
  Bytes schema_;
  std::string root_;
};

}  // namespace crossdock::ipc::testing
