#include "metadata_mutator.h"

#include <flatbuffers/reflection_generated.h>

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "core/bytes.h"

namespace crossdock::ipc::testing {
namespace {

using reflection::BaseType;
using Fields = flatbuffers::Vector<flatbuffers::Offset<reflection::Field>>;

constexpr std::size_t kReference = 4;

Bytes read_schema_file(std::string_view root) {
  const std::string path =
      std::string(CROSSDOCK_SCHEMA_FOLDER) + (root == "Footer" ? "/arrow_file.bfbs" : "/arrow_message.bfbs");
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty()) throw std::runtime_error("there is nothing in " + path);
  const ByteSpan bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::size_t width_of(BaseType type) {
  switch (type) {
    case BaseType::UType:
    case BaseType::Bool:
    case BaseType::Byte:
    case BaseType::UByte: return 1;
    case BaseType::Short:
    case BaseType::UShort: return 2;
    case BaseType::Int:
    case BaseType::UInt:
    case BaseType::Float: return 4;
    case BaseType::Long:
    case BaseType::ULong:
    case BaseType::Double: return 8;
    default: return 0;
  }
}

std::string short_name(const reflection::Object& object) {
  const std::string name = object.name()->str();
  return name.substr(name.rfind('.') + 1);
}

const reflection::Object* find(const reflection::Schema& schema, std::string_view name) {
  for (const reflection::Object* object : *schema.objects()) {
    if (short_name(*object) == name) return object;
  }
  throw std::runtime_error("the schema has no table " + std::string(name));
}

class Walk {
 public:
  Walk(const reflection::Schema& schema, const Bytes& bytes, std::vector<Place>* out)
      : schema_(schema), bytes_(bytes), out_(*out) {}

  void root(const reflection::Object& object) { table(object, follow(0)); }

 private:
  template <class T>
  T load(std::size_t at) const {
    return load_le<T>(bytes_.data() + at);
  }
  std::size_t follow(std::size_t at) const { return at + load<std::uint32_t>(at); }
  const reflection::Object& object(std::int32_t index) const {
    return *schema_.objects()->Get(static_cast<flatbuffers::uoffset_t>(index));
  }

  std::size_t field_at(std::size_t table, std::uint16_t offset) const {
    const auto vtable = static_cast<std::size_t>(static_cast<std::int64_t>(table) - load<std::int32_t>(table));
    if (offset >= load<std::uint16_t>(vtable)) return 0;
    const auto within = load<std::uint16_t>(vtable + offset);
    return within == 0 ? 0 : table + within;
  }

  void table(const reflection::Object& object, std::size_t table) {
    for (const reflection::Field* field : *object.fields()) {
      const std::string name = short_name(object) + "." + field->name()->str();
      const BaseType type = field->type()->base_type();
      const std::size_t at = field_at(table, field->offset());
      const bool is_struct = type == BaseType::Obj && this->object(field->type()->index()).is_struct();
      const bool is_number = width_of(type) > 0;
      const std::size_t width = is_number ? width_of(type) : is_struct ? 0 : kReference;
      out_.push_back({name, !is_number && !is_struct, width, at, table, field->offset()});
      if (at == 0 || is_number) continue;
      switch (type) {
        case BaseType::String: size(name, follow(at)); break;
        case BaseType::Vector: vector(name, *field->type(), follow(at)); break;
        case BaseType::Union: union_value(object, *field, table, follow(at)); break;
        default:
          is_struct ? structure(this->object(field->type()->index()), at)
                    : this->table(this->object(field->type()->index()), follow(at));
      }
    }
  }

  void size(const std::string& name, std::size_t vector) { out_.push_back({name + "#", false, 4, vector, 0, 0}); }

  void structure(const reflection::Object& object, std::size_t at) {
    for (const reflection::Field* field : *object.fields()) {
      const std::string name = short_name(object) + "." + field->name()->str();
      out_.push_back({name, false, width_of(field->type()->base_type()), at + field->offset(), 0, 0});
    }
  }

  void vector(const std::string& name, const reflection::Type& type, std::size_t vector) {
    size(name, vector);
    const auto n = load<std::uint32_t>(vector);
    for (std::size_t i = 0; i < n; ++i) {
      if (type.element() != BaseType::Obj) {
        const std::size_t width = width_of(type.element());
        out_.push_back({name + "[]", false, width, vector + 4 + i * width, 0, 0});
      } else if (const reflection::Object& of = object(type.index()); of.is_struct()) {
        structure(of, vector + 4 + i * static_cast<std::size_t>(of.bytesize()));
      } else {
        out_.push_back({name + "[]", true, kReference, vector + 4 + i * kReference, 0, 0});
        table(of, follow(vector + 4 + i * kReference));
      }
    }
  }

  void union_value(const reflection::Object& object, const reflection::Field& field, std::size_t table,
                   std::size_t value) {
    const std::string type_name = field.name()->str() + "_type";
    const std::size_t at = field_at(table, object.fields()->LookupByKey(type_name.c_str())->offset());
    const auto& members = *schema_.enums()->Get(static_cast<flatbuffers::uoffset_t>(field.type()->index()))->values();
    const reflection::EnumVal* member = members.LookupByKey(load<std::uint8_t>(at));
    this->table(this->object(member->union_type()->index()), value);
  }

  const reflection::Schema& schema_;
  const Bytes& bytes_;
  std::vector<Place>& out_;
};

void append_aligned(Bytes* bytes, std::size_t alignment, const void* from, std::size_t size) {
  bytes->resize(align_up(bytes->size(), alignment));
  bytes->resize(bytes->size() + size);
  std::memcpy(bytes->data() + bytes->size() - size, from, size);
}

/// Writers let tables of one form share a vtable: this table gets its own, at the end, in which `offset` says `within`.
void give_own_vtable(Bytes* bytes, std::size_t table, std::size_t offset, std::size_t within) {
  const auto old =
      static_cast<std::size_t>(static_cast<std::int64_t>(table) - load_le<std::int32_t>(bytes->data() + table));
  const std::size_t old_size = load_le<std::uint16_t>(bytes->data() + old);
  Bytes vtable(bytes->begin() + static_cast<std::ptrdiff_t>(old),
               bytes->begin() + static_cast<std::ptrdiff_t>(old + old_size));
  if (vtable.size() < offset + 2) vtable.resize(offset + 2);
  store_le(vtable.data(), static_cast<std::uint16_t>(vtable.size()));
  store_le(vtable.data() + offset, static_cast<std::uint16_t>(within));
  append_aligned(bytes, 2, vtable.data(), vtable.size());
  const auto place = static_cast<std::int64_t>(bytes->size() - vtable.size());
  store_le(bytes->data() + table, static_cast<std::int32_t>(static_cast<std::int64_t>(table) - place));
}

}  // namespace

MetadataMutator::MetadataMutator(std::string_view root) : schema_(read_schema_file(root)), root_(root) {}

std::vector<Place> MetadataMutator::places(const Bytes& flatbuffer) const {
  const reflection::Schema& schema = *reflection::GetSchema(schema_.data());
  std::vector<Place> found;
  Walk(schema, flatbuffer, &found).root(*find(schema, root_));
  return found;
}

std::set<std::string> MetadataMutator::fields_of_tables() const {
  std::set<std::string> names;
  for (const reflection::Object* object : *reflection::GetSchema(schema_.data())->objects()) {
    if (object->is_struct()) continue;
    for (const reflection::Field* field : *object->fields()) {
      names.insert(short_name(*object) + "." + field->name()->str());
    }
  }
  return names;
}

Bytes MetadataMutator::without(Bytes flatbuffer, const Place& place) {
  if (place.at != 0) give_own_vtable(&flatbuffer, place.table, place.offset, 0);
  return flatbuffer;
}

Bytes MetadataMutator::with(Bytes flatbuffer, const Place& place, std::int64_t value) {
  std::size_t at = place.at;
  if (at == 0) {
    append_aligned(&flatbuffer, place.width, &value, place.width);
    at = flatbuffer.size() - place.width;
    give_own_vtable(&flatbuffer, place.table, place.offset, at - place.table);
  }
  std::memcpy(flatbuffer.data() + at, &value, place.width);
  return flatbuffer;
}

}  // namespace crossdock::ipc::testing
