#include "ipc/internal/schema_writer.h"

#include <string>
#include <vector>

#include "core/text.h"
#include "ipc/internal/type_map.h"

namespace crossdock::ipc {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T>
using Vector = flatbuffers::Vector<Offset<T>>;

/// Far below 2 GiB, at which FlatBuffers would assert.
constexpr std::uint64_t kMaxText = 1ull << 30;

std::uint64_t text_size(const array::Metadata& metadata) {
  std::uint64_t sum = 0;
  for (const auto& [key, value] : metadata) sum += key.size() + value.size() + 64;
  return sum;
}

std::uint64_t text_size(const std::vector<array::Field>& fields) {
  std::uint64_t sum = 0;
  for (const array::Field& field : fields) {
    sum += field.name.size() + field.type.timezone.size() + text_size(field.metadata) + text_size(field.children) + 256;
    if (field.dictionary) sum += field.dictionary->type.timezone.size() + text_size(field.dictionary->children);
  }
  return sum;
}

Offset<flatbuf::Field> write_field(FlatBufferBuilder& builder, const array::Field& field, const std::string& parent);

Offset<Vector<flatbuf::Field>> write_fields(FlatBufferBuilder& builder, const std::vector<array::Field>& fields,
                                            const std::string& parent) {
  std::vector<Offset<flatbuf::Field>> offsets;
  offsets.reserve(fields.size());
  for (const array::Field& field : fields) offsets.push_back(write_field(builder, field, parent));
  // Writes the vector also if it is empty, because some readers require it.
  return builder.CreateVector(offsets);
}

Offset<flatbuf::Field> write_field(FlatBufferBuilder& builder, const array::Field& field, const std::string& parent) {
  const std::string path = parent.empty() ? field.name : parent + '.' + field.name;
  const array::Field& values = field.dictionary ? *field.dictionary : field;
  if (field.dictionary && values.dictionary) {
    throw UnsupportedTypeError("field \"" + excerpt(path, 2 * kMostShown) +
                               "\": Arrow IPC doesn't support a dictionary whose values are indices of another "
                               "dictionary; decode one of the two");
  }
  const auto name = builder.CreateString(field.name);
  const WrittenType type = write_type(builder, values.type);
  Offset<flatbuf::DictionaryEncoding> encoding;
  if (field.dictionary) {
    encoding = flatbuf::CreateDictionaryEncoding(builder, field.dictionary_id, write_integer(builder, field.type.id),
                                                 field.dictionary_ordered);
  }
  const auto children = write_fields(builder, values.children, path);
  const auto metadata = write_metadata(builder, field.metadata);
  return flatbuf::CreateField(builder, name, field.nullable, type.kind, type.table, encoding, children, metadata);
}

}  // namespace

Offset<Vector<flatbuf::KeyValue>> write_metadata(FlatBufferBuilder& builder, const array::Metadata& metadata) {
  if (metadata.empty()) return {};
  if (text_size(metadata) > kMaxText) {
    throw InvalidDataError("custom metadata takes " + std::to_string(text_size(metadata)) +
                           " bytes; an IPC message holds at most 1 GiB of it");
  }
  std::vector<Offset<flatbuf::KeyValue>> pairs;
  pairs.reserve(metadata.size());
  for (const auto& [key, value] : metadata) {
    const auto key_text = builder.CreateString(key);
    pairs.push_back(flatbuf::CreateKeyValue(builder, key_text, builder.CreateString(value)));
  }
  return builder.CreateVector(pairs);
}

Offset<flatbuf::Schema> write_schema(FlatBufferBuilder& builder, const array::Schema& schema,
                                     std::span<const std::int64_t> features) {
  const std::uint64_t text = text_size(schema.fields()) + text_size(schema.metadata());
  if (text > kMaxText) {
    throw InvalidDataError("the schema's names and metadata take " + std::to_string(text) +
                           " bytes; an IPC message holds at most 1 GiB of them");
  }
  const auto fields = write_fields(builder, schema.fields(), {});
  const auto metadata = write_metadata(builder, schema.metadata());
  std::vector<flatbuf::Feature> numbers;
  for (const std::int64_t feature : features) numbers.push_back(static_cast<flatbuf::Feature>(feature));
  Offset<flatbuffers::Vector<flatbuf::Feature>> written;
  if (!numbers.empty()) written = builder.CreateVector(numbers);
  return flatbuf::CreateSchema(builder, flatbuf::Endianness::Little, fields, metadata, written);
}

}  // namespace crossdock::ipc
