#include "crossdock/array/schema.h"

#include <unordered_map>
#include <unordered_set>

#include "array/internal/check_type.h"
#include "array/internal/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

std::string names_of(std::span<const Field> fields) {
  constexpr std::size_t kMost = 20;
  std::string names;
  for (const Field& field : fields.first(std::min(fields.size(), kMost))) {
    if (!names.empty()) names += ", ";
    names += "\"" + excerpt(field.name) + "\"";
  }
  if (fields.size() > kMost) names += " and " + std::to_string(fields.size() - kMost) + " more";
  return names.empty() ? "no columns" : names;
}

bool same_dictionary(const std::shared_ptr<const Field>& a, const std::shared_ptr<const Field>& b) {
  if (a == b) return true;
  if (!a || !b) return false;
  return a->same_values(*b);
}

/// Checks the whole tree, with dictionaries' values, and collects the given ids.
class SchemaChecker {
 public:
  void check(const std::vector<Field>& fields, const std::string& parent, int depth) {
    for (std::size_t i = 0; i < fields.size(); ++i) check(fields[i], child_path(parent, fields[i].name, i), depth);
  }
  bool taken(std::int64_t id) const { return ids_.contains(id); }

 private:
  void check(const Field& field, const std::string& path, int depth) {
    check_limits(++count_, depth, path);
    check_type(field, path);
    if (field.dictionary) {
      if (field.dictionary_id < -1) {
        throw_invalid(path, "dictionary id " + std::to_string(field.dictionary_id) +
                                " is negative; leave it at -1 to have one assigned");
      }
      if (field.dictionary_id >= 0) ids_.insert(field.dictionary_id);
      check(*field.dictionary, path + ".dictionary", depth + 1);
    }
    check(field.children, path, depth + 1);
  }

  std::unordered_set<std::int64_t> ids_;
  std::int64_t count_ = 0;
};

/// Assigns an id to every dictionary. Fields that share an id get the same object as values' field.
class IdAssigner {
 public:
  explicit IdAssigner(const SchemaChecker& checker) : checker_(checker) {}

  void assign(std::vector<Field>& fields, const std::string& parent) {
    for (std::size_t i = 0; i < fields.size(); ++i) assign(fields[i], child_path(parent, fields[i].name, i));
  }

 private:
  void assign(Field& field, const std::string& path) {
    assign(field.children, path);
    if (!field.dictionary) return;
    if (field.dictionary_id < 0) field.dictionary_id = next_free();
    auto [known, is_new] = values_.try_emplace(field.dictionary_id);
    if (is_new) {
      auto values = std::make_shared<Field>(*field.dictionary);
      assign(*values, path + ".dictionary");
      values_[field.dictionary_id] = values;  // not through `known`: the call above may have rehashed the map
      field.dictionary = std::move(values);
      return;
    }
    if (!known->second) {
      throw_invalid(path, "the dictionary's values use the dictionary's own id " + std::to_string(field.dictionary_id));
    }
    if (!same_dictionary(known->second, field.dictionary)) {
      throw_invalid(path, "dictionary id " + std::to_string(field.dictionary_id) +
                              " is used by another field with values of type " + type_name(known->second->type) +
                              ", but its values here are of type " + type_name(field.dictionary->type) +
                              ", or differ in a nested field; fields may share an id only if they share the values");
    }
    field.dictionary = known->second;
  }

  std::int64_t next_free() {
    while (checker_.taken(next_)) ++next_;
    return next_++;
  }

  const SchemaChecker& checker_;
  std::int64_t next_ = 0;
  std::unordered_map<std::int64_t, std::shared_ptr<const Field>> values_;
};

/// Returns LayoutNode::element_bits.
std::int64_t element_bits(const LayoutNode& node) noexcept {
  const TypeLayout& type = node.type;
  if (type.n_buffers != 2 || !type.has_validity() || type.variadic || node.n_children != 0) return 0;
  if (type.buffers[1] == BufferKind::kBits) return 1;
  return std::int64_t{8} * element_width(type.buffers[1], type.width);
}

/// Lays the fields out in preorder.
struct Flattener {
  std::vector<LayoutNode>& nodes;
  std::vector<DictionarySlot>& slots;
  std::int32_t& n_buffers;
  std::int32_t& n_variadic;
  std::unordered_map<std::int64_t, std::shared_ptr<const Schema>> schemas{};  ///< Of dictionaries, by id.

  void add(const Field& field) {
    LayoutNode& node = nodes.emplace_back();
    node.type = type_layout(field.type);
    node.id = field.type.id;
    node.nullable = field.nullable;
    node.n_children = static_cast<std::int32_t>(field.children.size());
    node.fixed_size = field.type.id == TypeId::kFixedSizeList ? field.type.fixed_size : 0;
    node.first_buffer = n_buffers;
    node.dictionary_slot = field.dictionary ? static_cast<std::int32_t>(slots.size()) : -1;
    node.field = &field;
    node.element_bits = element_bits(node);
    n_buffers += node.type.n_buffers;
    if (node.type.variadic) ++n_variadic;
    if (field.dictionary) {
      std::shared_ptr<const Schema>& values = schemas[field.dictionary_id];
      if (!values) values = std::make_shared<Schema>(std::vector<Field>{*field.dictionary});
      slots.push_back({field.dictionary_id, values});
    }
    const std::size_t index = nodes.size() - 1;
    for (const Field& child : field.children) add(child);
    nodes[index].n_nodes = static_cast<std::int32_t>(nodes.size() - index);
  }
};

void describe(const Field& field, int indent, std::string* out) {
  out->append(static_cast<std::size_t>(indent) * 2, ' ');
  *out += printable(field.name) + ": ";
  if (field.dictionary) {
    *out += "dictionary<" + type_name(field.dictionary->type) + ", indices " + type_name(field.type) +
            (field.dictionary_ordered ? ", ordered>" : ">");
  } else {
    *out += type_name(field.type);
  }
  if (!field.nullable) *out += " not null";
  *out += '\n';
  for (const Field& child : field.children) describe(child, indent + 1, out);
  if (field.dictionary) {
    for (const Field& child : field.dictionary->children) describe(child, indent + 1, out);
  }
}

}  // namespace

bool Field::operator==(const Field& other) const {
  return name == other.name && nullable == other.nullable && same_values(other);
}

bool Field::same_values(const Field& other) const {
  return type == other.type && metadata == other.metadata && children == other.children &&
         dictionary_ordered == other.dictionary_ordered && same_dictionary(dictionary, other.dictionary);
}

Schema::Schema(std::vector<Field> fields, Metadata metadata)
    : fields_(std::move(fields)), metadata_(std::move(metadata)) {
  SchemaChecker checker;
  checker.check(fields_, "", 1);
  IdAssigner(checker).assign(fields_, "");
  Flattener flattener{nodes_, dictionaries_, n_buffers_, n_variadic_};
  for (const Field& field : fields_) flattener.add(field);
}

std::size_t Schema::index_of(std::string_view name) const {
  std::size_t found = fields_.size();
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].name != name) continue;
    if (found != fields_.size()) {
      throw InvalidArgumentError("column \"" + excerpt(name) + "\" is ambiguous: columns " + std::to_string(found) +
                                 " and " + std::to_string(i) + " both have that name");
    }
    found = i;
  }
  if (found == fields_.size())
    throw NotFoundError("no column \"" + excerpt(name) + "\"; there are " + names_of(fields_));
  return found;
}

std::string Schema::to_string() const {
  std::string out;
  for (const Field& field : fields_) describe(field, 0, &out);
  return out;
}

std::shared_ptr<const Schema> Schema::find_dictionary(std::int64_t id) const {
  for (const DictionarySlot& slot : dictionaries_) {
    if (slot.id == id) return slot.values;
    if (auto nested = slot.values->find_dictionary(id)) return nested;
  }
  return nullptr;
}

bool Schema::operator==(const Schema& other) const { return fields_ == other.fields_ && metadata_ == other.metadata_; }

}  // namespace crossdock::array
