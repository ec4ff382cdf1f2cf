#include <arrow_message_generated.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using ::testing::HasSubstr;

TEST(Encoder, BatchesOfEveryTypeComeBack) {
  Encoder encoder;
  BatchHeader header;
  for (const std::int64_t rows : {0, 1, 7, 1000}) {
    for (const bool nulls : {false, true}) {
      const array::RecordBatch batch = make_batch(every_type(), rows, nulls);
      const Message message = Message::parse(encoder.record_batch(batch), {}, "round trip");
      ASSERT_EQ(message.kind(), MessageKind::kRecordBatch);
      EXPECT_TRUE(message.has_body());
      message.batch(*batch.schema, &header);
      EXPECT_EQ(header.num_rows, rows);
      EXPECT_EQ(header.dictionary_id, -1);
      ASSERT_EQ(header.nodes.size(), batch.nodes.size());
      for (std::size_t i = 0; i < header.nodes.size(); ++i) {
        EXPECT_EQ(header.nodes[i].length, batch.nodes[i].length);
        EXPECT_EQ(header.nodes[i].null_count, batch.nodes[i].null_count);
      }
      std::int64_t end = 0;
      ASSERT_EQ(header.buffers.size(), batch.buffers.size());
      for (std::size_t i = 0; i < header.buffers.size(); ++i) {
        EXPECT_EQ(header.buffers[i].length, batch.buffers[i].size);
        EXPECT_EQ(header.buffers[i].offset, end) << "as if packed at 64-byte alignment";
        end += static_cast<std::int64_t>(align_up(static_cast<std::uint64_t>(batch.buffers[i].size), 64));
      }
      EXPECT_EQ(header.body_length, end);
      EXPECT_EQ(message.body_length(), end);
    }
  }
}

TEST(Encoder, DictionaryBatchesComeBack) {
  const auto schema = every_type();
  const array::DictionarySlot& slot = schema->dictionaries()[3];
  Encoder encoder;
  BatchHeader header;
  for (const bool delta : {false, true}) {
    const auto values = make_batch(slot.values, 12, true);
    const Message message = Message::parse(encoder.dictionary_batch(values, slot.id, delta), {}, "round trip");
    ASSERT_EQ(message.kind(), MessageKind::kDictionaryBatch);
    EXPECT_EQ(message.dictionary_id(), slot.id);
    message.batch(*slot.values, &header);
    EXPECT_EQ(header.dictionary_id, slot.id);
    EXPECT_EQ(header.is_delta, delta);
    EXPECT_EQ(header.num_rows, 12);
  }
}

TEST(Encoder, WritesVersionFiveAndWholeWords) {
  Encoder encoder;
  const ByteSpan bytes = encoder.record_batch(make_batch(floats(3), 5));
  EXPECT_EQ(bytes.size() % 8, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 8, 0u);
  EXPECT_EQ(flatbuffers::GetRoot<flatbuf::Message>(bytes.data())->version(), flatbuf::MetadataVersion::V5);
}

TEST(Encoder, UnknownNullCounts) {
  array::RecordBatch batch = make_batch(floats(2), 5, true);
  batch.nodes[0].null_count = -1;
  batch.nodes[1].null_count = -1;
  batch.buffers[2] = {};
  Encoder encoder;
  BatchHeader header;
  Message::parse(encoder.record_batch(batch), {}, "round trip").batch(*batch.schema, &header);
  EXPECT_EQ(header.nodes[0].null_count, -1) << "there is a bitmap, and it isn't read here";
  EXPECT_EQ(header.nodes[1].null_count, 0) << "no bitmap, no nulls";

  array::RecordBatch nothing =
      make_batch(std::make_shared<const array::Schema>(std::vector{field("n", array::TypeId::kNull)}), 5);
  nothing.nodes[0].null_count = -1;
  Message::parse(encoder.record_batch(nothing), {}, "round trip").batch(*nothing.schema, &header);
  EXPECT_EQ(header.nodes[0].null_count, 5);
}

TEST(Encoder, WhatIsNotNormalizedIsRefused) {
  Encoder encoder;
  const auto error = [&](const array::RecordBatch& batch) {
    return error_of<InvalidArgumentError>([&] { encoder.record_batch(batch); });
  };
  array::RecordBatch batch = make_batch(floats(2), 5);
  batch.nodes[1].offset = 3;
  EXPECT_THAT(error(batch), HasSubstr("normalized"));
  EXPECT_THAT(error(batch), HasSubstr("\"c1\""));
  batch.nodes[1] = {-5, 0, 0};
  EXPECT_THAT(error(batch), HasSubstr("length is -5"));
  batch.nodes[1] = {5, 0, 0};
  batch.buffers[1].size = -8;
  EXPECT_THAT(error(batch), HasSubstr("negative"));
  batch.buffers.pop_back();
  EXPECT_THAT(error(batch), HasSubstr("3 buffers"));
  EXPECT_THAT(error({}), HasSubstr("no schema"));
  EXPECT_EQ(error(make_batch(floats(2), 5)), "") << "the encoder still works";
}

TEST(Encoder, MovesWithItsMemory) {
  Encoder first;
  first.record_batch(make_batch(floats(2), 5));
  Encoder second = std::move(first);
  EXPECT_GT(second.record_batch(make_batch(floats(2), 5)).size(), 0u);
}

}  // namespace
}  // namespace crossdock::ipc::testing
