#include <arrow_message_generated.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::TypeId;
using flatbuf::Buffer;
using flatbuf::FieldNode;
using flatbuffers::FlatBufferBuilder;
using ::testing::HasSubstr;

struct Batch {
  std::int64_t length = 0;
  std::vector<FieldNode> nodes;
  std::vector<Buffer> buffers;
  std::int64_t body_length = 0;
  std::vector<std::int64_t> variadic_counts{};
  flatbuf::MetadataVersion version = flatbuf::MetadataVersion::V5;
};

std::vector<std::byte> built(const Batch& batch) {
  FlatBufferBuilder b;
  const auto buffers = b.CreateVectorOfStructs(batch.buffers.data(), batch.buffers.size());
  const auto nodes = b.CreateVectorOfStructs(batch.nodes.data(), batch.nodes.size());
  flatbuffers::Offset<flatbuffers::Vector<std::int64_t>> counts;
  if (!batch.variadic_counts.empty()) counts = b.CreateVector(batch.variadic_counts);
  const auto table = flatbuf::CreateRecordBatch(b, batch.length, nodes, buffers, 0, counts);
  b.Finish(
      flatbuf::CreateMessage(b, batch.version, flatbuf::MessageHeader::RecordBatch, table.Union(), batch.body_length));
  return to_vector({reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()});
}

BatchHeader read(const array::Schema& schema, const Batch& batch) {
  BatchHeader out;
  Message::parse(built(batch), {}, "made by hand").batch(schema, &out);
  return out;
}

std::string error(const array::Schema& schema, const Batch& batch) {
  return error_of<InvalidDataError>([&] { read(schema, batch); });
}

array::Schema one(array::Field only) { return array::Schema({std::move(only)}); }

TEST(BatchReader, AGoodBatch) {
  const BatchHeader header = read(one(field("a", TypeId::kInt32)), {4, {{4, 1}}, {{0, 1}, {64, 16}}, 128});
  EXPECT_EQ(header.num_rows, 4);
  EXPECT_EQ(header.nodes[0].null_count, 1);
  EXPECT_EQ(header.buffers[1].offset, 64);
  EXPECT_EQ(header.buffers[1].length, 16);
  EXPECT_EQ(header.body_length, 128);
}

TEST(BatchReader, VectorsAreOftenAbsentWhereEmpty) {
  FlatBufferBuilder b;
  b.Finish(flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V5, flatbuf::MessageHeader::RecordBatch,
                                  flatbuf::CreateRecordBatch(b, 3).Union()));
  const ByteSpan bytes{reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()};
  const Message message = Message::parse(bytes, {}, "made by hand");
  BatchHeader header;
  message.batch(array::Schema({}), &header);
  EXPECT_EQ(header.num_rows, 3);
  const array::Schema schema = one(field("a", TypeId::kInt32));
  EXPECT_THAT(error_of<InvalidDataError>([&] { message.batch(schema, &header); }), HasSubstr("0 field nodes"));
}

TEST(BatchReader, CountsMustMatchTheSchema) {
  const auto schema = one(field("a", TypeId::kInt32));
  EXPECT_THAT(error(schema, {0, {}, {{0, 0}, {0, 0}}, 0}), HasSubstr("0 field nodes"));
  EXPECT_THAT(error(schema, {0, {{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}, 0}), HasSubstr("2 field nodes"));
  EXPECT_THAT(error(schema, {0, {{0, 0}}, {{0, 0}}, 0}), HasSubstr("1 buffers"));
  EXPECT_THAT(error(schema, {0, {{0, 0}}, {{0, 0}, {0, 0}, {0, 0}}, 0}), HasSubstr("3 buffers"));
}

TEST(BatchReader, NodesOutOfRange) {
  const auto schema = one(field("a", TypeId::kNull));
  EXPECT_THAT(error(schema, {-1, {{-1, 0}}, {}, 0}), HasSubstr("-1"));
  EXPECT_THAT(error(schema, {kMin, {{kMin, 0}}, {}, 0}), HasSubstr("rows"));
  EXPECT_THAT(error(schema, {4, {{-4, 0}}, {}, 0}), HasSubstr("length -4"));
  EXPECT_THAT(error(schema, {4, {{4, 5}}, {}, 0}), HasSubstr("null count of 5"));
  EXPECT_THAT(error(schema, {4, {{4, -2}}, {}, 0}), HasSubstr("null count of -2"));
  EXPECT_THAT(error(schema, {4, {{5, 0}}, {}, 0}), HasSubstr("5 elements in a batch of 4"));
  EXPECT_EQ(error(schema, {kMax, {{kMax, kMax}}, {}, 0}), "") << "nulls take no memory";
}

TEST(BatchReader, BuffersMustLieInTheBody) {
  const auto schema = one(field("a", TypeId::kInt8));
  const auto with = [&](Buffer data) { return error(schema, {0, {{0, 0}}, {{0, 0}, data}, 64}); };
  EXPECT_EQ(with({0, 64}), "");
  EXPECT_EQ(with({64, 0}), "");
  for (const Buffer bad : {Buffer(-8, 8), Buffer(0, -8), Buffer(0, 65), Buffer(64, 1), Buffer(65, 0), Buffer(kMax, 1),
                           Buffer(1, kMax), Buffer(kMax, kMax), Buffer(kMin, 0), Buffer(0, kMin)}) {
    EXPECT_THAT(with(bad), HasSubstr("isn't inside the body")) << bad.offset() << ' ' << bad.length();
  }
}

TEST(BatchReader, BuffersMustNotOverlap) {
  const array::Schema schema({field("a", TypeId::kInt8), field("b", TypeId::kInt8)});
  const auto with = [&](Buffer a, Buffer b) {
    return error(schema, {0, {{0, 0}, {0, 0}}, {{0, 0}, a, {0, 0}, b}, 64});
  };
  EXPECT_EQ(with({0, 8}, {8, 8}), "");
  EXPECT_EQ(with({8, 8}, {0, 8}), "") << "in any order";
  EXPECT_EQ(with({0, 64}, {8, 0}), "") << "what is empty lies anywhere";
  EXPECT_EQ(with({64, 0}, {64, 0}), "");
  EXPECT_EQ(with({0, 8}, {7, 8}), "made by hand: buffer 3 (offset 7, length 8) overlaps buffer 1 (offset 0, length 8)");
  EXPECT_THAT(with({7, 8}, {0, 8}), HasSubstr("buffer 1 (offset 7, length 8) overlaps buffer 3"));
  EXPECT_THAT(with({0, 8}, {0, 8}), HasSubstr("overlaps"));
  EXPECT_THAT(with({0, 64}, {8, 8}), HasSubstr("overlaps"));
  EXPECT_THAT(with({8, 8}, {0, 64}), HasSubstr("overlaps"));
}

TEST(BatchReader, OverlapsAreFoundWhereverTheyAre) {
  constexpr int kColumns = 6;
  std::vector<array::Field> fields(kColumns, field("a", TypeId::kInt8));
  const array::Schema schema(std::move(fields));
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    Batch batch{0, std::vector<FieldNode>(kColumns, FieldNode(0, 0)), {}, 64};
    for (int i = 0; i < 2 * kColumns; ++i) {
      const auto length = static_cast<std::int64_t>(random() % 5);
      batch.buffers.emplace_back(static_cast<std::int64_t>(random() % 60), length);
    }
    bool overlap = false;
    for (std::size_t i = 0; i < batch.buffers.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Buffer& a = batch.buffers[i];
        const Buffer& b = batch.buffers[j];
        overlap |= a.length() > 0 && b.length() > 0 && a.offset() < b.offset() + b.length() &&
                   b.offset() < a.offset() + a.length();
      }
    }
    refused += overlap;
    ASSERT_EQ(error(schema, batch).find("overlaps") != std::string::npos, overlap) << round;
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 1900);
}

TEST(BatchReader, BuffersMustBeLongEnough) {
  const auto too_few = HasSubstr("too few");
  EXPECT_THAT(error(one(field("a", TypeId::kInt32)), {4, {{4, 0}}, {{0, 0}, {0, 15}}, 64}), too_few);
  EXPECT_THAT(error(one(field("a", TypeId::kInt32)), {9, {{9, 1}}, {{0, 1}, {8, 36}}, 64}), too_few) << "bitmap";
  EXPECT_THAT(error(one(field("a", TypeId::kBool)), {9, {{9, 0}}, {{0, 0}, {0, 1}}, 64}), too_few);
  EXPECT_THAT(error(one(field("a", TypeId::kUtf8)), {4, {{4, 0}}, {{0, 0}, {0, 16}, {0, 0}}, 64}), too_few);
  EXPECT_THAT(error(one(field("a", TypeId::kLargeUtf8)), {4, {{4, 0}}, {{0, 0}, {0, 39}, {0, 0}}, 64}), too_few);
  EXPECT_EQ(error(one(field("a", TypeId::kLargeUtf8)), {4, {{4, 0}}, {{0, 0}, {0, 40}, {0, 0}}, 64}), "");
  EXPECT_EQ(error(one(field("a", TypeId::kUtf8)), {0, {{0, 0}}, {{0, 0}, {0, 0}, {0, 0}}, 0}), "")
      << "an empty array may leave its one offset out";
}

TEST(BatchReader, LengthsThatOverflow) {
  const auto too_few = HasSubstr("too few");
  for (const TypeId id : {TypeId::kInt64, TypeId::kBool, TypeId::kUtf8, TypeId::kLargeBinary}) {
    const array::Schema schema = one(field("a", id));
    const std::vector<Buffer> buffers(static_cast<std::size_t>(schema.n_buffers()), Buffer(0, 0));
    for (const std::int64_t length : {kMax, kMax / 2 + 1, kMax / 4 + 1, kMax / 8 + 1}) {
      EXPECT_THAT(error(schema, {length, {{length, 0}}, buffers, 0}), too_few) << length;
    }
  }
}

TEST(BatchReader, NullsNeedABitmap) {
  const auto schema = one(field("a", TypeId::kInt8));
  EXPECT_THAT(error(schema, {4, {{4, 1}}, {{0, 0}, {0, 4}}, 64}), HasSubstr("no validity"));
  EXPECT_EQ(read(schema, {4, {{4, -1}}, {{0, 0}, {0, 4}}, 64}).nodes[0].null_count, 0) << "unknown, but no bitmap";
  EXPECT_EQ(read(schema, {4, {{4, -1}}, {{0, 1}, {8, 4}}, 64}).nodes[0].null_count, -1);
}

TEST(BatchReader, ChildrenMustBeLongEnoughForTheirParents) {
  const auto with_struct = one(field("s", array::Type{.id = TypeId::kStruct}, {field("x", TypeId::kInt8)}));
  EXPECT_EQ(error(with_struct, {4, {{4, 0}, {4, 0}}, {{0, 0}, {0, 0}, {0, 4}}, 64}), "");
  EXPECT_THAT(error(with_struct, {4, {{4, 0}, {3, 0}}, {{0, 0}, {0, 0}, {0, 4}}, 64}), HasSubstr("\"x\""));

  const auto with_list =
      one(field("f", array::Type{.id = TypeId::kFixedSizeList, .fixed_size = 3}, {field("x", TypeId::kInt8)}));
  EXPECT_EQ(error(with_list, {4, {{4, 0}, {12, 0}}, {{0, 0}, {0, 0}, {0, 12}}, 64}), "");
  EXPECT_THAT(error(with_list, {4, {{4, 0}, {11, 0}}, {{0, 0}, {0, 0}, {0, 12}}, 64}), HasSubstr("needs 12"));
  EXPECT_THAT(error(with_list, {kMax, {{kMax, 0}, {0, 0}}, {{0, 0}, {0, 0}, {0, 0}}, 64}),
              HasSubstr("their number overflows"));

  const array::Schema after(
      {field("s", array::Type{.id = TypeId::kStruct}, {field("x", TypeId::kNull)}), field("last", TypeId::kNull)});
  EXPECT_EQ(error(after, {2, {{2, 0}, {5, 0}, {2, 0}}, {{0, 0}}, 0}), "") << "a child may be longer";
  EXPECT_THAT(error(after, {2, {{2, 0}, {2, 0}, {3, 0}}, {{0, 0}}, 0}), HasSubstr("\"last\""));
}

TEST(BatchReader, ViewsHaveAsManyBuffersAsTheirCountsSay) {
  const array::Schema schema(
      {field("v", TypeId::kUtf8View), field("i", TypeId::kInt8), field("w", TypeId::kBinaryView)});
  const std::vector<FieldNode> nodes{{2, 0}, {2, 0}, {2, 0}};
  const std::vector<Buffer> buffers{{0, 0}, {0, 32}, {64, 7}, {72, 0}, {0, 0}, {80, 2}, {0, 0}, {96, 32}};
  const BatchHeader header = read(schema, {2, nodes, buffers, 128, {2, 0}});
  EXPECT_EQ(header.variadic_counts, (std::vector<std::int64_t>{2, 0}));
  ASSERT_EQ(header.buffers.size(), 8u);
  EXPECT_EQ(header.buffers[7].offset, 96);

  EXPECT_THAT(error(schema, {2, nodes, buffers, 128, {}}), HasSubstr("0 variadic buffer counts"));
  EXPECT_THAT(error(schema, {2, nodes, buffers, 128, {2}}), HasSubstr("1 variadic buffer counts"));
  EXPECT_THAT(error(schema, {2, nodes, buffers, 128, {2, 0, 0}}), HasSubstr("3 variadic buffer counts"));
  EXPECT_THAT(error(schema, {2, nodes, buffers, 128, {1, 0}}), HasSubstr("8 buffers, but the schema needs 7"));
  EXPECT_THAT(error(schema, {2, nodes, buffers, 128, {3, 0}}), HasSubstr("needs 9"));
  EXPECT_THAT(error(schema, {2, nodes, buffers, 128, {0, 2}}), HasSubstr("field \"i\""))
      << "other buffers are too short";
  EXPECT_THAT(error(schema, {2, nodes, buffers, 128, {-1, 3}}), HasSubstr("-1 variadic buffers"));
  for (const std::int64_t absurd : {kMax, kMax / 2, std::int64_t{1} << 32, std::int64_t{array::kMaxBuffers} + 1}) {
    EXPECT_THAT(error(schema, {2, nodes, buffers, 128, {absurd, absurd}}), HasSubstr("variadic buffers; a batch may"));
  }
  EXPECT_THAT(error(one(field("i", TypeId::kInt8)), {0, {{0, 0}}, {{0, 0}, {0, 0}}, 0, {1}}),
              HasSubstr("the schema has 0 fields of a view type"));
}

TEST(BatchReader, BuffersOfOneBatchAreLimited) {
  const auto schema = one(field("v", TypeId::kUtf8View));
  const Batch batch{0, {{0, 0}}, std::vector<Buffer>(10, Buffer(0, 0)), 0, {8}};
  const auto limited = [&](std::int32_t most) {
    Limits limits;
    limits.max_buffers = most;
    BatchHeader out;
    Message::parse(built(batch), limits, "made by hand").batch(schema, &out);
  };
  limited(10);
  EXPECT_THAT(error_of<InvalidDataError>([&] { limited(9); }), HasSubstr("10 buffers are over the limit of 9"));
  EXPECT_THAT(error_of<InvalidDataError>([&] { limited(7); }), HasSubstr("a batch may have 7 buffers"));
}

TEST(BatchReader, BuffersOfLaterTypesMustBeLongEnough) {
  const auto too_few = HasSubstr("too few");
  const auto list_view = one(field("l", array::Type{.id = TypeId::kListView}, {field("x", TypeId::kNull)}));
  EXPECT_EQ(error(list_view, {4, {{4, 0}, {9, 9}}, {{0, 0}, {0, 16}, {16, 16}}, 64}), "");
  EXPECT_THAT(error(list_view, {4, {{4, 0}, {9, 9}}, {{0, 0}, {0, 15}, {16, 16}}, 64}), too_few);
  EXPECT_THAT(error(list_view, {4, {{4, 0}, {9, 9}}, {{0, 0}, {0, 16}, {16, 15}}, 64}), too_few);
  const auto large = one(field("l", array::Type{.id = TypeId::kLargeListView}, {field("x", TypeId::kNull)}));
  EXPECT_EQ(error(large, {4, {{4, 0}, {9, 9}}, {{0, 0}, {0, 32}, {32, 32}}, 64}), "");
  EXPECT_THAT(error(large, {4, {{4, 0}, {9, 9}}, {{0, 0}, {0, 31}, {32, 32}}, 64}), too_few);
  EXPECT_THAT(error(large, {4, {{4, 0}, {9, 9}}, {{0, 0}, {0, 32}, {32, 31}}, 64}), too_few);
  EXPECT_THAT(error(one(field("v", TypeId::kBinaryView)), {4, {{4, 0}}, {{0, 0}, {0, 63}}, 64, {0}}), too_few);
  EXPECT_THAT(error(one(field("v", TypeId::kIntervalMonthDayNano)), {4, {{4, 0}}, {{0, 0}, {0, 63}}, 64}), too_few);
  for (const std::int64_t length : {kMax, kMax / 16 + 1}) {
    EXPECT_THAT(error(one(field("v", TypeId::kBinaryView)), {length, {{length, 0}}, {{0, 0}, {0, 64}}, 64, {0}}),
                too_few);
  }
}

array::Schema union_schema(TypeId id) {
  return one(
      field("u", array::Type{.id = id, .type_codes = {0, 1}}, {field("a", TypeId::kInt8), field("n", TypeId::kNull)}));
}

TEST(BatchReader, Unions) {
  const auto sparse = union_schema(TypeId::kSparseUnion);
  const auto dense = union_schema(TypeId::kDenseUnion);
  EXPECT_EQ(error(sparse, {4, {{4, 0}, {4, 0}, {4, 4}}, {{0, 4}, {0, 0}, {8, 4}}, 64}), "");
  EXPECT_EQ(error(dense, {4, {{4, 0}, {1, 0}, {0, 0}}, {{0, 4}, {8, 16}, {0, 0}, {24, 1}}, 64}), "");
  EXPECT_EQ(read(sparse, {4, {{4, 3}, {4, 0}, {4, 4}}, {{0, 4}, {0, 0}, {8, 4}}, 64}).nodes[0].null_count, 0)
      << "a union has no nulls of its own";
  EXPECT_THAT(error(sparse, {4, {{4, 0}, {4, 0}, {4, 4}}, {{0, 3}, {0, 0}, {8, 4}}, 64}), HasSubstr("too few"));
  EXPECT_THAT(error(dense, {4, {{4, 0}, {1, 0}, {0, 0}}, {{0, 4}, {8, 15}, {0, 0}, {24, 1}}, 64}),
              HasSubstr("too few"));
  EXPECT_THAT(error(sparse, {4, {{4, 0}, {3, 0}, {4, 4}}, {{0, 4}, {0, 0}, {8, 4}}, 64}), HasSubstr("needs 4"));
}

TEST(BatchReader, UnionsOfV4LoseTheirBitmap) {
  constexpr auto kV4 = flatbuf::MetadataVersion::V4;
  const array::Schema schema({field("v", TypeId::kUtf8View),
                              field("u", array::Type{.id = TypeId::kDenseUnion, .type_codes = {0, 1}},
                                    {field("a", TypeId::kInt8), field("n", TypeId::kNull)}),
                              field("w", TypeId::kBinaryView), field("s", TypeId::kSparseUnion)});
  const auto with = [&](std::int64_t nulls, Buffer bitmap) {
    return Batch{2,
                 {{2, 0}, {2, nulls}, {1, 0}, {0, 0}, {2, 0}, {2, 0}},
                 {{0, 0},
                  {0, 32},
                  {32, 1},
                  bitmap,
                  {40, 2},
                  {48, 8},
                  {0, 0},
                  {56, 1},
                  {0, 0},
                  {64, 32},
                  {96, 3},
                  {0, 0},
                  {104, 2}},
                 128,
                 {1, 1},
                 kV4};
  };
  for (const Batch& batch : {with(0, {0, 0}), with(0, {39, 1}), with(1, {0, 0}), with(-1, {0, 0})}) {
    const BatchHeader header = read(schema, batch);
    EXPECT_EQ(header.nodes[1].null_count, 0);
    std::vector<std::int64_t> offsets;
    for (const BufferRange& range : header.buffers) offsets.push_back(range.offset);
    EXPECT_THAT(offsets, ::testing::ElementsAre(0, 0, 32, 40, 48, 0, 56, 0, 64, 96, 104));
  }
  for (const std::int64_t nulls : {1, -1}) {
    const std::string refused = error_of<UnsupportedTypeError>([&] { read(schema, with(nulls, {39, 1})); });
    EXPECT_THAT(refused, HasSubstr("field \"u\" (dense_union[0, 1]): it has nulls of its own"));
  }
  Batch newer = with(0, {0, 0});
  newer.version = flatbuf::MetadataVersion::V5;
  EXPECT_THAT(error(schema, newer), HasSubstr("13 buffers, but the schema needs 11"));
}

TEST(BatchReader, RunEndEncodedNodesOfV4LoseTheirBitmap) {
  const auto schema = one(field("r", array::Type{.id = TypeId::kRunEndEncoded},
                                {field("run_ends", TypeId::kInt16), field("values", TypeId::kInt8)}));
  const std::vector<FieldNode> nodes{{4, 0}, {1, 0}, {1, 0}};
  const BatchHeader header =
      read(schema, {4, nodes, {{0, 0}, {0, 0}, {8, 2}, {16, 0}, {24, 1}}, 64, {}, flatbuf::MetadataVersion::V4});
  ASSERT_EQ(header.buffers.size(), 4u);
  EXPECT_EQ(header.buffers[1].offset, 8);
  EXPECT_EQ(header.buffers[3].offset, 24);
}

TEST(BatchReader, RunEndEncoded) {
  array::Field ends = field("run_ends", TypeId::kInt32);
  const auto schema =
      one(field("r", array::Type{.id = TypeId::kRunEndEncoded}, {ends, field("values", TypeId::kInt8)}));
  const auto with = [&](std::int64_t length, std::int64_t runs, std::int64_t values) {
    return error(schema, {length, {{length, 0}, {runs, 0}, {values, 0}}, {{0, 0}, {0, 32}, {0, 0}, {32, 8}}, 64});
  };
  EXPECT_EQ(with(1000, 1, 1), "");
  EXPECT_EQ(with(0, 0, 0), "");
  EXPECT_THAT(with(1000, 0, 0), HasSubstr("\"run_ends\" (int32): 0 elements, but its parent needs 1"));
  EXPECT_THAT(with(1000, 4, 3), HasSubstr("\"values\" (int8): 3 elements, but its parent needs 4"));
  EXPECT_THAT(with(1000, 9, 9), HasSubstr("too few"));
}

TEST(BatchReader, CustomMetadataOfTheMessage) {
  Encoder encoder;
  const auto schema = floats(2);
  const array::Metadata metadata{{"k", "v"}, {"k", ""}, {std::string("\0\xff", 2), "x"}};
  array::RecordBatch batch = make_batch(schema, 3);
  batch.custom_metadata = metadata;
  BatchHeader header;
  for (const auto& bytes :
       {to_vector(encoder.record_batch(batch)), to_vector(encoder.dictionary_batch(batch, 4, false))}) {
    const Message message = Message::parse(bytes, {}, "round trip");
    message.batch(*schema, &header);
    EXPECT_EQ(header.custom_metadata, metadata);
    EXPECT_EQ(message.custom_metadata(), metadata);
  }
  const auto without = to_vector(encoder.record_batch(make_batch(schema, 3)));
  Message::parse(without, {}, "round trip").batch(*schema, &header);
  EXPECT_TRUE(header.custom_metadata.empty()) << "nothing is left over in a header that is used again";

  const std::vector<std::int64_t> features{1, 2};
  const auto bytes = to_vector(encoder.schema(*schema, features, metadata));
  const Message message = Message::parse(bytes, {}, "round trip");
  EXPECT_EQ(message.custom_metadata(), metadata);
  const SchemaInfo info = message.schema_info();
  EXPECT_EQ(info.features, features);
  EXPECT_EQ(info.endianness, Endianness::kLittle);
  EXPECT_EQ(*info.schema, *schema);
}

TEST(BatchReader, StructVectorsNeedNotBeAligned) {
  // A verified vector starts 4-aligned; its int64 may not be 8-aligned. Written as vectors of int32 (which FlatBuffers
  // aligns to 4), one word apart, and then said to hold structs.
  FlatBufferBuilder b;
  const auto buffers = b.CreateVector(std::vector<std::int32_t>{0, 0, 0, 0, 0, 0, 16, 0});
  b.CreateVector(std::vector<std::int32_t>{0});
  const auto nodes = b.CreateVector(std::vector<std::int32_t>{4, 0, 0, 0});
  const auto table =
      flatbuf::CreateRecordBatch(b, 4, flatbuffers::Offset<flatbuffers::Vector<const FieldNode*>>(nodes.o),
                                 flatbuffers::Offset<flatbuffers::Vector<const Buffer*>>(buffers.o));
  b.Finish(
      flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V5, flatbuf::MessageHeader::RecordBatch, table.Union(), 64));
  std::vector<std::byte> bytes = to_vector({reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()});
  const auto* root = flatbuffers::GetRoot<flatbuf::Message>(bytes.data())->header_as_RecordBatch();
  auto* base = reinterpret_cast<const std::uint8_t*>(bytes.data());
  store_le<std::uint32_t>(bytes.data() + (root->nodes()->Data() - base - 4), 1);
  store_le<std::uint32_t>(bytes.data() + (root->buffers()->Data() - base - 4), 2);
  const bool odd = (root->nodes()->Data() - base) % 8 != 0 || (root->buffers()->Data() - base) % 8 != 0;
  ASSERT_TRUE(odd) << "the test must have made a misaligned vector";
  BatchHeader header;
  Message::parse(bytes, {}, "made by hand").batch(one(field("a", TypeId::kInt32)), &header);
  EXPECT_EQ(header.nodes[0].length, 4);
  EXPECT_EQ(header.buffers[1].length, 16);
}

TEST(BatchReader, CompressionIsTold) {
  const auto read = [](flatbuf::CompressionType codec, int method, BatchHeader* header) {
    FlatBufferBuilder b;
    const auto compression =
        flatbuf::CreateBodyCompression(b, codec, static_cast<flatbuf::BodyCompressionMethod>(method));
    const auto table = flatbuf::CreateRecordBatch(b, 0, 0, 0, compression);
    b.Finish(
        flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V5, flatbuf::MessageHeader::RecordBatch, table.Union()));
    const ByteSpan bytes{reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()};
    const Message message = Message::parse(bytes, {}, "flights.arrow");
    return error_of<UnsupportedTypeError>([&] { message.batch(array::Schema({}), header); });
  };
  BatchHeader header;
  EXPECT_EQ(read(flatbuf::CompressionType::LZ4_FRAME, 0, &header), "");
  EXPECT_EQ(header.codec, Codec::kLz4Frame);
  EXPECT_EQ(read(flatbuf::CompressionType::ZSTD, 0, &header), "");
  EXPECT_EQ(header.codec, Codec::kZstd);
  EXPECT_THAT(read(static_cast<flatbuf::CompressionType>(9), 0, &header),
              HasSubstr("flights.arrow: the body is compressed with codec 9"));
  EXPECT_THAT(read(flatbuf::CompressionType::ZSTD, 1, &header), HasSubstr("compressed by method 1"));
}

TEST(BatchReader, DictionaryBatchWithoutData) {
  FlatBufferBuilder b;
  b.Finish(flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V5, flatbuf::MessageHeader::DictionaryBatch,
                                  flatbuf::CreateDictionaryBatch(b, 3).Union()));
  const ByteSpan bytes{reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()};
  const Message message = Message::parse(bytes, {}, "made by hand");
  EXPECT_EQ(message.dictionary_id(), 3);
  BatchHeader header;
  EXPECT_THAT(error_of<InvalidDataError>([&] { message.batch(array::Schema({}), &header); }), HasSubstr("no data"));
}

TEST(BatchReader, HeadersKeepTheirMemory) {
  const auto schema = floats(16);
  Encoder encoder;
  const auto bytes = to_vector(encoder.record_batch(make_batch(schema, 3)));
  BatchHeader header;
  const Message message = Message::parse(bytes, {}, "round trip");
  message.batch(*schema, &header);
  const auto* nodes = header.nodes.data();
  const auto* buffers = header.buffers.data();
  message.batch(*schema, &header);
  EXPECT_EQ(header.nodes.data(), nodes);
  EXPECT_EQ(header.buffers.data(), buffers);
}

}  // namespace
}  // namespace crossdock::ipc::testing
