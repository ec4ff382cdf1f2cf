#include "ipc/internal/schema_reader.h"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text.h"
#include "ipc/internal/type_map.h"

namespace crossdock::ipc {
namespace {

using FieldVector = flatbuffers::Vector<flatbuffers::Offset<flatbuf::Field>>;
using PairVector = flatbuffers::Vector<flatbuffers::Offset<flatbuf::KeyValue>>;

std::string_view text(const flatbuffers::String* string) {
  return string ? std::string_view(string->c_str(), string->size()) : std::string_view();
}

/// The place of a field: a chain on the stack, converted to text only for an error.
struct Path {
  const Path* parent;
  std::string_view name;
  std::size_t position;
};

std::string to_text(const Path& path) {
  std::string out = path.parent ? to_text(*path.parent) + '.' : std::string();
  if (path.name.empty()) return out + std::to_string(path.position);
  for (const char c : path.name.substr(0, 200)) {
    // Names come from peers, and error texts are shown on terminals.
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      out += c;
    } else {
      constexpr char kDigits[] = "0123456789abcdef";
      out += {'\\', 'x', kDigits[(c >> 4) & 15], kDigits[c & 15]};
    }
  }
  return out;
}

class SchemaReader {
 public:
  SchemaReader(const Limits& limits, const char* where)
      : limits_(limits), where_(where), budget_(2 * limits.max_metadata_bytes) {}

  array::Metadata read_metadata(const PairVector* pairs) {
    array::Metadata out;
    if (!pairs) return out;
    spend(static_cast<std::int64_t>(pairs->size()) * static_cast<std::int64_t>(sizeof(array::Metadata::value_type)));
    out.reserve(pairs->size());
    for (const flatbuf::KeyValue* pair : *pairs) out.emplace_back(copy(pair->key()), copy(pair->value()));
    return out;
  }

  std::vector<array::Field> read_fields(const FieldVector* fields, const Path* parent, int depth) {
    std::vector<array::Field> out;
    if (!fields) return out;
    if (fields->size() > static_cast<std::uint64_t>(limits_.max_fields - n_fields_)) {
      throw InvalidDataError(std::string(where_) + ": the schema has more than " + std::to_string(limits_.max_fields) +
                             " fields");
    }
    n_fields_ += static_cast<std::int32_t>(fields->size());
    out.reserve(fields->size());
    for (const flatbuf::Field* field : *fields) {
      out.push_back(read_field(*field, Path{parent, text(field->name()), out.size()}, depth));
    }
    return out;
  }

 private:
  array::Field read_field(const flatbuf::Field& field, const Path& path, int depth) {
    if (depth > limits_.max_depth) {
      fail_invalid(path, "nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    }
    array::Field out;
    out.name = copy(field.name());
    out.nullable = field.nullable();
    out.metadata = read_metadata(field.custom_metadata());
    array::Type type = checked(read_type(field), path);
    spend(static_cast<std::int64_t>(type.timezone.size()));
    std::vector<array::Field> children = read_fields(field.children(), &path, depth + 1);
    if (field.dictionary() == nullptr) {
      out.type = std::move(type);
      out.children = std::move(children);
      return out;
    }
    read_dictionary(*field.dictionary(), path, &out);
    // The field's type and children are those of the dictionary's values.
    auto values = std::make_shared<array::Field>();
    values->type = std::move(type);
    values->children = std::move(children);
    out.dictionary = std::move(values);
    if (n_fields_++ >= limits_.max_fields) {
      fail_invalid(path, "the schema has more than " + std::to_string(limits_.max_fields) + " fields");
    }
    return out;
  }

  void read_dictionary(const flatbuf::DictionaryEncoding& encoding, const Path& path, array::Field* out) const {
    if (encoding.id() < 0) {
      fail_invalid(path, "dictionary id " + std::to_string(encoding.id()) + " is negative");
    }
    if (encoding.dictionary_kind() != flatbuf::DictionaryKind::DenseArray) {
      throw UnsupportedTypeError(
          in_field(path) + "dictionary kind " + std::to_string(static_cast<int>(encoding.dictionary_kind())) +
          " isn't known to this version; write the column with a plain dictionary, or without one");
    }
    out->type = checked(read_index_type(encoding.index_type()), path);
    out->dictionary_id = encoding.id();
    out->dictionary_ordered = encoding.is_ordered();
  }

  array::Type checked(ReadType read, const Path& path) const {
    if (read.type) return *std::move(read.type);
    if (!read.invalid.empty()) fail_invalid(path, read.invalid);
    throw UnsupportedTypeError(in_field(path) + "type " + read.unsupported +
                               " isn't known to this version; cast the column, or leave it out");
  }

  std::string copy(const flatbuffers::String* string) {
    const std::string_view found = text(string);
    spend(static_cast<std::int64_t>(found.size()));
    return std::string(found);
  }

  /// Limits the memory that is used. Strings and pairs may be shared within a flatbuffer, but each use is copied.
  void spend(std::int64_t bytes) {
    budget_ -= bytes;
    if (budget_ < 0) {
      throw InvalidDataError(std::string(where_) + ": the schema's names and metadata would take more than " +
                             std::to_string(2 * limits_.max_metadata_bytes) + " bytes");
    }
  }

  std::string in_field(const Path& path) const {
    return std::string(where_) + ": field \"" + excerpt(to_text(path), 2 * kMostShown) + "\": ";
  }
  [[noreturn]] void fail_invalid(const Path& path, const std::string& what) const {
    throw InvalidDataError(in_field(path) + what);
  }

  const Limits& limits_;
  const char* where_;
  std::int64_t budget_;
  std::int32_t n_fields_ = 0;
};

}  // namespace

std::shared_ptr<const array::Schema> read_schema(const flatbuf::Schema& schema, const Limits& limits,
                                                 const char* where) {
  if (schema.endianness() == flatbuf::Endianness::Big) {
    throw UnsupportedTypeError(std::string(where) +
                               ": the data is big-endian, and this reader supports only little-endian data; write it "
                               "again on a little-endian machine");
  }
  return read_schema_info(schema, limits, where).schema;
}

array::Metadata read_metadata(const flatbuffers::Vector<flatbuffers::Offset<flatbuf::KeyValue>>* pairs,
                              const Limits& limits, const char* where) {
  return SchemaReader(limits, where).read_metadata(pairs);
}

SchemaInfo read_schema_info(const flatbuf::Schema& schema, const Limits& limits, const char* where) {
  SchemaInfo info;
  switch (schema.endianness()) {
    case flatbuf::Endianness::Little: info.endianness = Endianness::kLittle; break;
    case flatbuf::Endianness::Big: info.endianness = Endianness::kBig; break;
    default:
      throw InvalidDataError(std::string(where) + ": endianness " +
                             std::to_string(static_cast<int>(schema.endianness())) + " doesn't exist");
  }
  if (const auto* features = schema.features()) {
    // Copies bytes, because the verifier guarantees that the numbers exist, but not that they are aligned.
    info.features.resize(features->size());
    if (!info.features.empty()) {
      std::memcpy(info.features.data(), features->Data(), info.features.size() * sizeof(std::int64_t));
    }
  }
  SchemaReader reader(limits, where);
  std::vector<array::Field> fields = reader.read_fields(schema.fields(), nullptr, 1);
  array::Metadata metadata = reader.read_metadata(schema.custom_metadata());
  try {
    info.schema = std::make_shared<const array::Schema>(std::move(fields), std::move(metadata));
  } catch (const InvalidDataError& error) {
    throw InvalidDataError(std::string(where) + ": " + error.what());
  }
  return info;
}

}  // namespace crossdock::ipc
