#include "ipc/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::TypeId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

BatchDescription described(ByteSpan metadata, const array::Schema& schema) {
  return describe_batch(metadata, schema, {}, "the test");
}

std::vector<std::string> kinds(const BatchDescription& batch, std::size_t node) {
  std::vector<std::string> out;
  const NodeDescription& one = batch.nodes.at(node);
  for (std::size_t i = 0; i < one.n_buffers; ++i) out.emplace_back(batch.buffers.at(one.first_buffer + i).kind);
  return out;
}

TEST(Summarize, SaysWhatEachKindOfMessageSays) {
  const auto schema = std::make_shared<const array::Schema>(
      std::vector{field("x", TypeId::kFloat64), dictionary("name", TypeId::kInt32, field("", TypeId::kUtf8), 4)});
  Encoder encoder;
  MessageSummary summary = summarize(encoder.schema(*schema, {}, {{"k", "v"}}), {}, "the test");
  EXPECT_EQ(summary.kind, MessageKind::kSchema);
  EXPECT_EQ(summary.version, 5);
  EXPECT_EQ(summary.n_fields, 2u);
  EXPECT_EQ(summary.n_metadata, 1u);
  EXPECT_EQ(summary.body_length, 0);

  summary = summarize(encoder.record_batch(make_batch(schema, 10, true)), {}, "the test");
  EXPECT_EQ(summary.kind, MessageKind::kRecordBatch);
  EXPECT_EQ(summary.num_rows, 10);
  EXPECT_EQ(summary.n_nodes, 2u);
  EXPECT_EQ(summary.n_buffers, 4u);
  EXPECT_EQ(summary.codec, Codec::kNone);
  EXPECT_GT(summary.body_length, 80);

  const auto values = make_batch(schema->dictionaries()[0].values, 3);
  summary = summarize(encoder.dictionary_batch(values, 4, true), {}, "the test");
  EXPECT_EQ(summary.kind, MessageKind::kDictionaryBatch);
  EXPECT_EQ(summary.dictionary_id, 4);
  EXPECT_TRUE(summary.is_delta);
  EXPECT_EQ(summary.num_rows, 3);

  BodyLayout layout;
  layout.codec = Codec::kZstd;
  layout.buffers.resize(4);
  summary = summarize(encoder.record_batch(make_batch(schema, 0), &layout), {}, "the test");
  EXPECT_EQ(summary.codec, Codec::kZstd);
}

TEST(Summarize, TakesBytesAtAnyAddressAndRefusesOthers) {
  Encoder encoder;
  const ByteSpan message = encoder.schema(*floats(3));
  std::vector<std::byte> shifted(message.size() + 1);
  std::memcpy(shifted.data() + 1, message.data(), message.size());
  EXPECT_EQ(summarize(ByteSpan(shifted).subspan(1), {}, "the test").n_fields, 3u);
  for (std::size_t size = 0; size < message.size(); ++size) {
    // What is cut off may be padding: then it is the same message.
    try {
      EXPECT_EQ(summarize(message.first(size), {}, "the test").n_fields, 3u) << size;
    } catch (const InvalidDataError& error) {
      EXPECT_THAT(error.what(), StartsWith("the test: "));
    }
  }
  EXPECT_THROW(summarize(message.first(message.size() / 2), {}, "the test"), InvalidDataError);
}

TEST(DescribeFields, WalksTheTree) {
  array::Field wide =
      field("wide", array::Type{.id = TypeId::kStruct}, {field("", TypeId::kInt8), field("in\x1bner", TypeId::kUtf8)});
  wide.nullable = false;
  wide.metadata = {{"ARROW:extension:name", "test.wide"}, {"k", "v"}};
  array::Field coded = dictionary("coded", TypeId::kInt16,
                                  field("", array::Type{.id = TypeId::kList}, {field("item", TypeId::kFloat32)}), 7);
  const array::Schema schema({wide, coded, field(std::string(300, 'x'), TypeId::kNull)});
  const std::vector<FieldDescription> fields = describe_fields(schema);
  ASSERT_EQ(fields.size(), 6u);
  EXPECT_EQ(fields[0].path, "wide");
  EXPECT_FALSE(fields[0].nullable);
  EXPECT_EQ(fields[0].extension, "test.wide");
  EXPECT_EQ(fields[0].metadata.size(), 2u);
  EXPECT_EQ(fields[1].path, "wide.[0]");
  EXPECT_EQ(fields[1].depth, 1);
  EXPECT_EQ(fields[2].path, "wide.in\\x1bner");
  EXPECT_EQ(fields[3].path, "coded");
  EXPECT_EQ(fields[3].type, "list");
  EXPECT_EQ(fields[3].index_type, "int16");
  EXPECT_EQ(fields[3].dictionary_id, 7);
  EXPECT_EQ(fields[4].path, "coded.item");
  EXPECT_EQ(fields[4].dictionary_id, -1);
  EXPECT_EQ(fields[5].path, std::string(200, 'x') + "...");
}

TEST(DescribeBatch, SaysWhatEachBufferIs) {
  const auto schema = std::make_shared<const array::Schema>(std::vector{
      field("b", TypeId::kBool), field("s", TypeId::kLargeUtf8),
      field("l", array::Type{.id = TypeId::kList}, {field("item", TypeId::kInt8)}), field("v", TypeId::kUtf8View)});
  array::RecordBatch batch = make_batch(schema, 8, true);
  batch.custom_metadata = {{"k", "v"}};
  Encoder encoder;
  const BatchDescription out = described(encoder.record_batch(batch), *schema);
  EXPECT_EQ(out.message.num_rows, 8);
  EXPECT_EQ(out.null_count, 4) << "one in each column; the list's child isn't one";
  EXPECT_EQ(out.custom_metadata, (array::Metadata{{"k", "v"}}));
  ASSERT_EQ(out.nodes.size(), 5u);
  EXPECT_EQ(out.nodes[3].path, "l.item");
  EXPECT_EQ(out.nodes[1].type, "large_utf8");
  EXPECT_THAT(kinds(out, 0), ElementsAre("validity", "bits"));
  EXPECT_THAT(kinds(out, 1), ElementsAre("validity", "int64 offsets", "data"));
  EXPECT_THAT(kinds(out, 2), ElementsAre("validity", "int32 offsets"));
  const auto variadic = static_cast<std::size_t>(batch.variadic_counts.at(0));
  ASSERT_EQ(out.nodes[4].n_buffers, 2 + variadic);
  for (std::size_t i = 0; i < variadic; ++i) {
    const BufferDescription& buffer = out.buffers.at(out.nodes[4].first_buffer + 2 + i);
    EXPECT_EQ(buffer.kind, "variadic");
    EXPECT_EQ(buffer.variadic, static_cast<std::int64_t>(i));
  }
  ASSERT_EQ(out.buffers.size(), batch.buffers.size());
  for (std::size_t i = 0; i < batch.buffers.size(); ++i) {
    EXPECT_EQ(out.buffers[i].range.length, batch.buffers[i].size) << i;
    EXPECT_EQ(out.buffers[i].range.offset % 64, 0) << i;
  }
}

TEST(DescribeBatch, CoversEveryType) {
  const auto schema = every_type();
  Encoder encoder;
  const BatchDescription out = described(encoder.record_batch(make_batch(schema, 5)), *schema);
  EXPECT_EQ(out.nodes.size(), schema->nodes().size());
  for (const BufferDescription& buffer : out.buffers) EXPECT_NE(buffer.kind, "unknown");
  for (const NodeDescription& node : out.nodes) EXPECT_FALSE(node.path.empty());
}

TEST(DescribeBatch, FindsDictionariesAndNamesWhatIsWrong) {
  const array::Schema schema(
      {dictionary("d", TypeId::kInt8, field("", array::Type{.id = TypeId::kList}, {field("item", TypeId::kUtf8)}), 9)});
  Encoder encoder;
  const auto values = make_batch(schema.dictionaries()[0].values, 2);
  EXPECT_EQ(described(encoder.dictionary_batch(values, 9, false), schema).nodes.size(), 2u);
  EXPECT_THAT(error_of<InvalidDataError>([&] { described(encoder.dictionary_batch(values, 8, false), schema); }),
              HasSubstr("dictionary 8 isn't used by any field"));
  EXPECT_THROW(described(encoder.schema(schema), schema), InvalidArgumentError);
  // A batch of another schema.
  EXPECT_THROW(described(encoder.record_batch(make_batch(floats(3), 1)), schema), InvalidDataError);
}

// What is changed may still be a message, or be refused by name: nothing else.
TEST(DescribeBatch, BytesThatWereChangedAreDescribedOrRefused) {
  const auto schema = every_type();
  Encoder encoder;
  array::RecordBatch batch = make_batch(schema, 5);
  batch.custom_metadata = {{"k", "v"}};
  std::vector<std::byte> message = to_vector(encoder.record_batch(batch));
  int refused = 0;
  int described_anyway = 0;
  for (std::size_t i = 0; i < message.size(); ++i) {
    for (const std::byte value : {std::byte{0x00}, std::byte{0x7f}, std::byte{0xff}}) {
      const std::byte before = std::exchange(message[i], value);
      try {
        const BatchDescription out = described(message, *schema);
        EXPECT_EQ(out.nodes.size(), schema->nodes().size());
        ++described_anyway;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), StartsWith("the test: "));
        ++refused;
      }
      message[i] = before;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(described_anyway, 100);
}

TEST(DecompressedSize, ReadsTheLengthBeforeABuffer) {
  std::vector<std::byte> head(8);
  const auto with = [&](std::int64_t length, std::int64_t size) {
    store_le(head.data(), length);
    return decompressed_size(head, size);
  };
  EXPECT_EQ(with(1000, 60), 1000);
  EXPECT_EQ(with(-1, 60), 52) << "stored raw";
  EXPECT_EQ(with(0, 0), 0);
  EXPECT_EQ(with(-2, 60), std::nullopt);
  EXPECT_EQ(with(5, 7), std::nullopt);
  EXPECT_EQ(decompressed_size({}, 60), std::nullopt);
}

}  // namespace
}  // namespace crossdock::ipc::testing
