#include "metadata_samples.h"

#include <arrow_file_generated.h>
#include <gtest/gtest.h>

#include <utility>

#include "container_writer.h"
#include "crossdock/core/error.h"
#include "ipc/container.h"
#include "ipc/describe.h"
#include "ipc/tensor.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::TypeId;

constexpr const char* kWhere = "the sample";

std::string text(const array::Metadata& pairs) {
  std::string out;
  for (const auto& [key, value] : pairs) out += " " + key + "=" + value;
  return out;
}

std::string text(const array::Schema& schema) {
  std::string out;
  for (const FieldDescription& field : describe_fields(schema)) {
    out += "\n" + field.path + ": " + field.type + (field.nullable ? "" : " not null");
    if (field.dictionary_id >= 0) {
      out += " dictionary " + std::to_string(field.dictionary_id) + " by " + field.index_type;
      if (field.ordered) out += " ordered";
    }
    out += text(field.metadata);
  }
  return out + "\nschema:" + text(schema.metadata());
}

std::string text(const SchemaInfo& info) {
  std::string out = info.endianness == Endianness::kBig ? "big-endian" : "little-endian";
  for (const std::int64_t feature : info.features) out += ", feature " + std::to_string(feature);
  return out + text(*info.schema);
}

std::string text(const BufferRange& range) {
  return " " + std::to_string(range.offset) + "+" + std::to_string(range.length);
}

std::string text(const BatchHeader& header) {
  std::string out = std::to_string(header.num_rows) + " rows, nodes";
  for (const array::Node& node : header.nodes) {
    out += " " + std::to_string(node.length) + "/" + std::to_string(node.null_count);
  }
  out += ", buffers";
  for (const BufferRange& range : header.buffers) out += text(range);
  out += ", variadic";
  for (const std::int64_t count : header.variadic_counts) out += " " + std::to_string(count);
  out += ", body " + std::to_string(header.body_length) + " " + std::string(compression_name(header.codec));
  if (header.dictionary_id >= 0) out += ", dictionary " + std::to_string(header.dictionary_id);
  return out + (header.is_delta ? " delta" : "");
}

std::string text(const TensorHeader& tensor) {
  std::string out = array::type_name(tensor.type);
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    out += ", " + std::to_string(tensor.shape[i]) + " by " + std::to_string(tensor.strides[i]);
    if (!tensor.names.empty()) out += " " + tensor.names[i];
  }
  return out + ", data" + text(tensor.data) + " of " + std::to_string(tensor.body_length);
}

void expect_fit(const BatchHeader& header, const array::Schema& schema) {
  ASSERT_EQ(header.nodes.size(), schema.nodes().size());
  ASSERT_EQ(header.variadic_counts.size(), static_cast<std::size_t>(schema.n_variadic()));
  for (const BufferRange& range : header.buffers) {
    ASSERT_GE(range.offset, 0);
    ASSERT_GE(range.length, 0);
    ASSERT_LE(range.length, header.body_length - range.offset);
    for (const BufferRange& other : header.buffers) {
      if (&other == &range || range.length == 0 || other.length == 0) continue;
      ASSERT_TRUE(other.offset >= range.offset + range.length || range.offset >= other.offset + other.length);
    }
  }
}

/// What is read of a schema is a schema that we could have sent.
void expect_same_when_written_again(const array::Schema& schema) {
  Encoder encoder;
  EXPECT_EQ(text(*Message::parse(encoder.schema(schema), {}, "written again").schema()), text(schema));
}

void expect_same_when_written_again(const TensorHeader& tensor) {
  Encoder encoder;
  TensorHeader back = Message::parse(encoder.tensor(tensor), {}, "written again").tensor();
  back.body_length = tensor.body_length;  // this one may be padded otherwise
  EXPECT_EQ(text(back), text(tensor));
}

/// `of`: the schema of batches and dictionaries.
std::string read_message(const Bytes& bytes, const array::Schema& of) {
  const Message message = Message::parse(bytes, {}, kWhere);
  const std::string head = "V" + std::to_string(message.version()) + text(message.custom_metadata()) + ", ";
  switch (message.kind()) {
    case MessageKind::kSchema: {
      const SchemaInfo info = message.schema_info();
      expect_same_when_written_again(*info.schema);
      return head + text(info);
    }
    case MessageKind::kTensor: {
      const TensorHeader tensor = message.tensor();
      expect_same_when_written_again(tensor);
      return head + text(tensor);
    }
    default: {
      BatchHeader header;
      message.batch(of, &header);
      expect_fit(header, of);
      return head + text(header);
    }
  }
}

MetadataSample message(std::string name, ByteSpan bytes, std::shared_ptr<const array::Schema> of = nullptr) {
  if (!of) of = floats(0);
  return {std::move(name), "Message", to_vector(bytes), [of](const Bytes& given) { return read_message(given, *of); }};
}

MetadataSample of_type(std::string name, array::Type type, std::vector<array::Field> children = {}) {
  return message(std::move(name), Encoder().schema(array::Schema({field("x", std::move(type), std::move(children))})));
}

MetadataSample coded() {
  array::Field only = dictionary("a", TypeId::kInt16, field("", TypeId::kUtf8), 4);
  only.dictionary_ordered = true;
  only.metadata = {{"k", "v"}};
  const std::int64_t feature = 2;
  return message("coded", Encoder().schema(array::Schema({only}, {{"s", "t"}}), {&feature, 1}, {{"m", "n"}}));
}

MetadataSample tensor() {
  TensorHeader of;
  of.type = {.id = TypeId::kInt32};
  of.shape = {3, 4};
  of.strides = {4, 12};
  of.names = {"row", "column"};
  of.data = {64, 48};
  return message("tensor", Encoder().tensor(of));
}

MetadataSample tensor_of_times() {
  TensorHeader of;
  of.type = {.id = TypeId::kTime64, .unit = array::TimeUnit::kNano};
  of.shape = {3};
  of.strides = {8};
  of.data = {0, 24};
  return message("tensor of times", Encoder().tensor(of));
}

std::shared_ptr<const array::Schema> views() {
  return std::make_shared<const array::Schema>(
      std::vector{field("i", TypeId::kInt32), field("v", TypeId::kUtf8View), field("w", TypeId::kBinaryView)});
}

MetadataSample compressed() {
  const auto schema = floats(1);
  BodyLayout body;
  body.codec = Codec::kZstd;
  body.buffers = {{0, 20}, {24, 40}};
  body.body_length = 64;
  return message("compressed", Encoder().record_batch(make_batch(schema, 8, true), &body), schema);
}

/// A file of a dictionary and a batch; the sample is its footer.
MetadataSample footer() {
  const auto schema =
      std::make_shared<const array::Schema>(std::vector{dictionary("a", TypeId::kInt32, field("", TypeId::kUtf8), 4)});
  Encoder encoder;
  ContainerWriter file;
  file.head();
  const auto values = make_batch(schema->dictionaries()[0].values, 2);
  const flatbuf::Block dictionary = file.message(encoder.dictionary_batch(values, 4, false));
  const flatbuf::Block batch = file.message(encoder.record_batch(make_batch(schema, 5)));
  flatbuffers::FlatBufferBuilder b;
  const auto pair = flatbuf::CreateKeyValue(b, b.CreateString("k"), b.CreateString("v"));
  const auto metadata = b.CreateVector(&pair, 1);
  const auto batches = b.CreateVectorOfStructs(&batch, 1);
  const auto dictionaries = b.CreateVectorOfStructs(&dictionary, 1);
  const auto encoding = flatbuf::CreateDictionaryEncoding(b, 4);
  const auto only =
      flatbuf::CreateField(b, b.CreateString("a"), true, flatbuf::Type::Utf8, flatbuf::CreateUtf8(b).Union(), encoding);
  const auto table = flatbuf::CreateSchema(b, flatbuf::Endianness::Little, b.CreateVector(&only, 1));
  b.Finish(flatbuf::CreateFooter(b, flatbuf::MetadataVersion::V5, table, dictionaries, batches, metadata));
  const ByteSpan bytes{reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()};
  return {"footer", "Footer", to_vector(bytes), [file](const Bytes& given) {
            ContainerWriter whole = file;
            whole.out.insert(whole.out.end(), given.begin(), given.end());
            whole.tail(static_cast<std::int32_t>(given.size()));
            const Container read = read_container(whole.out, kWhere, {});
            std::string out = "V" + std::to_string(read.version) + text(read.custom_metadata) + ", ";
            out += std::to_string(read.num_rows) + " rows";
            for (const ContainerMessage& place : read.messages) {
              EXPECT_LE(place.body_offset + place.body_length, static_cast<std::int64_t>(file.out.size()));
              out += ", " + std::string(kind_name(place.kind)) + " of " + std::to_string(place.body_length);
            }
            expect_same_when_written_again(*read.schema);
            return out + text(*read.schema);
          }};
}

}  // namespace

std::vector<MetadataSample> metadata_samples() {
  using array::TimeUnit;
  const auto values = std::make_shared<const array::Schema>(std::vector{field("", TypeId::kInt8)});
  const array::Field entries =
      field("e", array::Type{.id = TypeId::kStruct}, {field("k", TypeId::kInt8), field("v", TypeId::kInt8)});
  return {
      coded(),
      of_type("int", {.id = TypeId::kInt64}),
      of_type("float", {.id = TypeId::kFloat64}),
      of_type("decimal", {.id = TypeId::kDecimal128, .precision = 30, .scale = 10}),
      of_type("date", {.id = TypeId::kDate32}),
      of_type("time", {.id = TypeId::kTime64, .unit = TimeUnit::kNano}),
      of_type("timestamp", {.id = TypeId::kTimestamp, .unit = TimeUnit::kMicro, .timezone = "UTC"}),
      of_type("duration", {.id = TypeId::kDuration, .unit = TimeUnit::kMicro}),
      of_type("interval", {.id = TypeId::kIntervalDayTime}),
      of_type("fixed binary", {.id = TypeId::kFixedSizeBinary, .fixed_size = 7}),
      of_type("fixed list", {.id = TypeId::kFixedSizeList, .fixed_size = 3}, {field("c", TypeId::kInt8)}),
      of_type("map", {.id = TypeId::kMap, .keys_sorted = true}, {entries}),
      of_type("union", {.id = TypeId::kDenseUnion, .type_codes = {5, 9}},
              {field("c", TypeId::kInt8), field("d", TypeId::kBool)}),
      message("batch", Encoder().record_batch(make_batch(views(), 9, true)), views()),
      message("dictionary", Encoder().dictionary_batch(make_batch(values, 3), 4, true), values),
      compressed(),
      tensor(),
      tensor_of_times(),
      footer(),
  };
}

}  // namespace crossdock::ipc::testing
