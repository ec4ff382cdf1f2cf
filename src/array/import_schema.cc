#include <algorithm>

#include "array/column.h"
#include "array/internal/check_type.h"
#include "array/internal/format.h"
#include "array/internal/metadata.h"
#include "array/internal/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

bool is_struct(const ArrowSchema& schema) noexcept {
  return schema.format != nullptr && std::string_view(schema.format) == "+s" && schema.dictionary == nullptr;
}

class SchemaImporter {
 public:
  std::vector<Field> children(const ArrowSchema& schema, const std::string& path, int depth) {
    if (schema.n_children < 0) {
      throw_invalid(path, "the ArrowSchema has " + std::to_string(schema.n_children) + " children");
    }
    if (schema.n_children > 0 && schema.children == nullptr) {
      throw_invalid(path, "the ArrowSchema has children but no pointer to them");
    }
    check_limits(count_ + std::min<std::int64_t>(schema.n_children, kMaxFields + 1), 0, path);
    std::vector<Field> fields;
    fields.reserve(static_cast<std::size_t>(schema.n_children));
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
      const ArrowSchema* child = schema.children[i];
      const auto position = static_cast<std::size_t>(i);
      if (child == nullptr) throw_invalid(child_path(path, "", position), "the ArrowSchema's child is null");
      fields.push_back(field(*child, child_path(path, child->name ? child->name : "", position), depth));
    }
    return fields;
  }

  Field field(const ArrowSchema& schema, const std::string& path, int depth) {
    if (schema.release == nullptr) throw_invalid(path, "the ArrowSchema was released already");
    if (schema.format == nullptr) throw_invalid(path, "the ArrowSchema has no format string");
    // Checked before the children are read, so that a hostile depth uses up neither stack nor heap.
    check_limits(++count_, depth, path);
    Field field;
    if (schema.name != nullptr) field.name = schema.name;
    field.type = parse_format(schema.format, path);
    field.type.keys_sorted = field.type.id == TypeId::kMap && (schema.flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0;
    field.nullable = (schema.flags & ARROW_FLAG_NULLABLE) != 0;
    field.metadata = read_metadata(schema.metadata, path);
    field.children = children(schema, path, depth + 1);
    if (schema.dictionary != nullptr) {
      field.dictionary = std::make_shared<Field>(this->field(*schema.dictionary, path + ".dictionary", depth + 1));
      field.dictionary_ordered = (schema.flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0;
    }
    return field;
  }

 private:
  std::int64_t count_ = 0;
};

}  // namespace

std::shared_ptr<const Schema> import_schema(const ArrowSchema& schema) {
  if (schema.release == nullptr) {
    throw InvalidArgumentError("the ArrowSchema was released already; each may be consumed once");
  }
  SchemaImporter importer;
  if (is_struct(schema)) {
    std::vector<Field> fields = importer.children(schema, "", 1);
    return std::make_shared<Schema>(std::move(fields), read_metadata(schema.metadata, ""));
  }
  std::vector<Field> fields;
  fields.push_back(importer.field(schema, child_path("", schema.name ? schema.name : "", 0), 1));
  return std::make_shared<Schema>(std::move(fields));
}

TableSchema import_table_schema(const ArrowSchema& field) { return {import_schema(field), !is_struct(field)}; }

}  // namespace crossdock::array
