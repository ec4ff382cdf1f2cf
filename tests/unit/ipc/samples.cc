#include "samples.h"

#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::ipc::testing {
namespace {

using array::Field;
using array::Type;
using array::TypeId;

std::int64_t child_length(const Field& parent, std::int64_t length) {
  switch (parent.type.id) {
    case TypeId::kFixedSizeList: return length * parent.type.fixed_size;
    case TypeId::kStruct:
    case TypeId::kSparseUnion: return length;
    default: return length * 2;  // Lists and maps: any number would do.
  }
}

class Maker {
 public:
  Maker(array::RecordBatch* batch, bool nulls) : batch_(batch), nulls_(nulls) {}

  void add(const Field& field, std::int64_t length) {
    const array::TypeLayout layout = array::type_layout(field.type);
    const bool has_nulls = nulls_ && length > 0 && layout.has_validity() && !field.name.starts_with("run_ends");
    const std::int64_t null_count = field.type.id == TypeId::kNull ? length : has_nulls ? 1 : 0;
    batch_->nodes.push_back({length, null_count, 0});
    for (std::uint8_t i = 0; i < layout.n_buffers; ++i) add_buffer(layout, layout.buffers[i], length, has_nulls);
    if (layout.variadic) {
      // Another number for each view, none at times.
      const auto n = static_cast<std::int64_t>(batch_->variadic_counts.size() % 3);
      batch_->variadic_counts.push_back(n);
      for (std::int64_t i = 0; i < n; ++i) add_buffer(layout, array::BufferKind::kBytes, length + i, false);
    }
    for (const Field& child : field.children) add(child, child_length(field, length));
  }

 private:
  void add_buffer(const array::TypeLayout& layout, array::BufferKind kind, std::int64_t length, bool has_nulls) {
    std::int64_t size = 0;
    switch (kind) {
      case array::BufferKind::kValidity: size = has_nulls ? (length + 7) / 8 : 0; break;
      case array::BufferKind::kBits: size = (length + 7) / 8; break;
      case array::BufferKind::kFixed: size = length * layout.width; break;
      case array::BufferKind::kOffsets32: size = (length + 1) * 4; break;
      case array::BufferKind::kOffsets64: size = (length + 1) * 8; break;
      case array::BufferKind::kBytes: size = length * 3; break;
      default: size = length * array::element_width(kind, layout.width);
    }
    auto zeros = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size) + 1);
    batch_->buffers.push_back({size ? zeros->data() : nullptr, size});
    owned_->push_back(std::move(zeros));
    batch_->owner = owned_;
  }

  array::RecordBatch* batch_;
  bool nulls_;
  std::shared_ptr<std::vector<std::shared_ptr<std::vector<std::byte>>>> owned_ =
      std::make_shared<std::vector<std::shared_ptr<std::vector<std::byte>>>>();
};

}  // namespace

Field field(std::string name, TypeId id) { return field(std::move(name), Type{.id = id}); }

Field field(std::string name, Type type, std::vector<Field> children) {
  Field out;
  out.name = std::move(name);
  out.type = std::move(type);
  out.children = std::move(children);
  return out;
}

Field dictionary(std::string name, TypeId index, Field values, std::int64_t id) {
  Field out = field(std::move(name), index);
  out.dictionary = std::make_shared<const Field>(std::move(values));
  out.dictionary_id = id;
  return out;
}

std::shared_ptr<const array::Schema> every_type() {
  using U = array::TimeUnit;
  std::vector<Field> fields;
  for (const TypeId id :
       {TypeId::kNull, TypeId::kBool, TypeId::kInt8, TypeId::kInt16, TypeId::kInt32, TypeId::kInt64, TypeId::kUInt8,
        TypeId::kUInt16, TypeId::kUInt32, TypeId::kUInt64, TypeId::kFloat16, TypeId::kFloat32, TypeId::kFloat64,
        TypeId::kDate32, TypeId::kDate64, TypeId::kUtf8, TypeId::kLargeUtf8, TypeId::kBinary, TypeId::kLargeBinary}) {
    fields.push_back(field(array::type_name(Type{.id = id}), id));
  }
  fields.push_back(field("decimal32", Type{.id = TypeId::kDecimal32, .precision = 9, .scale = 2}));
  fields.push_back(field("decimal64", Type{.id = TypeId::kDecimal64, .precision = 18, .scale = -3}));
  fields.push_back(field("decimal128", Type{.id = TypeId::kDecimal128, .precision = 38, .scale = 10}));
  fields.push_back(field("decimal256", Type{.id = TypeId::kDecimal256, .precision = 76, .scale = 0}));
  fields.push_back(field("time32_s", Type{.id = TypeId::kTime32, .unit = U::kSecond}));
  fields.push_back(field("time32_ms", Type{.id = TypeId::kTime32, .unit = U::kMilli}));
  fields.push_back(field("time64_us", Type{.id = TypeId::kTime64, .unit = U::kMicro}));
  fields.push_back(field("time64_ns", Type{.id = TypeId::kTime64, .unit = U::kNano}));
  for (const U unit : {U::kSecond, U::kMilli, U::kMicro, U::kNano}) {
    const std::string suffix = std::to_string(static_cast<int>(unit));
    fields.push_back(field("timestamp" + suffix, Type{.id = TypeId::kTimestamp, .unit = unit}));
    fields.push_back(
        field("zoned" + suffix, Type{.id = TypeId::kTimestamp, .unit = unit, .timezone = "Europe/Berlin"}));
    fields.push_back(field("duration" + suffix, Type{.id = TypeId::kDuration, .unit = unit}));
  }
  fields.push_back(field("fixed_binary", Type{.id = TypeId::kFixedSizeBinary, .fixed_size = 7}));
  fields.push_back(field("fixed_binary_0", Type{.id = TypeId::kFixedSizeBinary, .fixed_size = 0}));
  fields.push_back(field("list", Type{.id = TypeId::kList}, {field("item", TypeId::kInt16)}));
  fields.push_back(field("large_list", Type{.id = TypeId::kLargeList}, {field("item", TypeId::kUtf8)}));
  fields.push_back(
      field("fixed_list", Type{.id = TypeId::kFixedSizeList, .fixed_size = 3}, {field("", TypeId::kBool)}));
  fields.push_back(field("empty_struct", Type{.id = TypeId::kStruct}));

  Field key = field("key", TypeId::kUtf8);
  key.nullable = false;
  Field entries = field("entries", Type{.id = TypeId::kStruct}, {key, field("value", TypeId::kFloat64)});
  entries.nullable = false;
  fields.push_back(field("map", Type{.id = TypeId::kMap, .keys_sorted = true}, {entries}));

  for (const TypeId id : {TypeId::kIntervalMonths, TypeId::kIntervalDayTime, TypeId::kIntervalMonthDayNano,
                          TypeId::kUtf8View, TypeId::kBinaryView}) {
    fields.push_back(field(array::type_name(Type{.id = id}), id));
  }
  fields.push_back(field("list_view", Type{.id = TypeId::kListView}, {field("item", TypeId::kUtf8View)}));
  fields.push_back(field("large_list_view", Type{.id = TypeId::kLargeListView}, {field("item", TypeId::kBool)}));
  fields.push_back(field("sparse", Type{.id = TypeId::kSparseUnion, .type_codes = {0, 5, 127}},
                         {field("a", TypeId::kInt8), field("b", TypeId::kUtf8View), field("c", TypeId::kNull)}));
  fields.push_back(field("dense", Type{.id = TypeId::kDenseUnion, .type_codes = {1, 0}},
                         {field("a", TypeId::kUtf8), field("b", TypeId::kFloat16)}));
  fields.push_back(field("no_children", TypeId::kSparseUnion));
  for (const TypeId ends : {TypeId::kInt16, TypeId::kInt32, TypeId::kInt64}) {
    Field run_ends = field("run_ends", ends);
    run_ends.nullable = false;
    fields.push_back(field("runs_of_" + array::type_name(Type{.id = ends}), Type{.id = TypeId::kRunEndEncoded},
                           {run_ends, field("values", TypeId::kBinaryView)}));
  }

  Field deep = field("leaf", TypeId::kInt8);
  for (int i = 0; i < 10; ++i) {
    deep = field("level" + std::to_string(i), Type{.id = i % 2 ? TypeId::kStruct : TypeId::kList}, {deep});
  }
  fields.push_back(deep);

  Field coded = dictionary("coded", TypeId::kInt8, field("", TypeId::kUtf8), 0);
  coded.dictionary_ordered = true;
  coded.nullable = false;
  coded.metadata = {{"ARROW:extension:name", "tests.colour"}, {"twice", "a"}, {"twice", "b"}, {"", ""}};
  fields.push_back(coded);
  fields.push_back(dictionary("shares", TypeId::kUInt64, field("", TypeId::kLargeUtf8), 7));
  fields.push_back(dictionary("shares_too", TypeId::kInt16, field("", TypeId::kLargeUtf8), 7));
  fields.push_back(field("within", Type{.id = TypeId::kList},
                         {dictionary("item", TypeId::kInt32,
                                     field("", Type{.id = TypeId::kStruct},
                                           {field("plain", TypeId::kInt64),
                                            dictionary("inner", TypeId::kInt8, field("", TypeId::kBinary), 9)}),
                                     8)}));
  fields.push_back(dictionary("coded_views", TypeId::kInt8,
                              field("", Type{.id = TypeId::kListView}, {field("item", TypeId::kUtf8View)}), 12));
  fields.push_back(dictionary(
      "coded_unions", TypeId::kInt8,
      field("", Type{.id = TypeId::kDenseUnion, .type_codes = {7}}, {field("views", TypeId::kBinaryView)}), 13));
  Field odd = field(std::string("o\xff\n", 3), TypeId::kInt32);
  odd.metadata = {{std::string("nul\0key", 7), std::string("\0\x01\xfe", 3)}};
  fields.push_back(odd);
  return std::make_shared<const array::Schema>(std::move(fields), array::Metadata{{"origin", "tests"}, {"empty", ""}});
}

std::shared_ptr<const array::Schema> floats(int n) {
  std::vector<Field> fields;
  for (int i = 0; i < n; ++i) fields.push_back(field("c" + std::to_string(i), TypeId::kFloat64));
  return std::make_shared<const array::Schema>(std::move(fields));
}

array::RecordBatch make_batch(std::shared_ptr<const array::Schema> schema, std::int64_t rows, bool nulls) {
  array::RecordBatch out;
  out.num_rows = rows;
  Maker maker(&out, nulls);
  for (const Field& top : schema->fields()) maker.add(top, rows);
  for (const array::DictionarySlot& slot : schema->dictionaries()) {
    out.dictionaries.push_back(std::make_shared<const array::RecordBatch>(make_batch(slot.values, 4, nulls)));
  }
  out.schema = std::move(schema);
  return out;
}

std::vector<std::byte> to_vector(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace crossdock::ipc::testing
