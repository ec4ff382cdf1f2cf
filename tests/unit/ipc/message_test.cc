#include <arrow_message_generated.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using flatbuffers::FlatBufferBuilder;
using ::testing::HasSubstr;

using MessageOffset = flatbuffers::Offset<flatbuf::Message>;

std::vector<std::byte> built(const std::function<MessageOffset(FlatBufferBuilder&)>& make) {
  FlatBufferBuilder b;
  b.Finish(make(b));
  return to_vector({reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()});
}

template <class E>
std::string parse_error(const std::function<MessageOffset(FlatBufferBuilder&)>& make) {
  const auto bytes = built(make);
  return error_of<E>([&] { Message::parse(bytes, {}, "made by hand"); });
}

/// Reads all that a message says; throws nothing but Errors, whatever the bytes are.
void read_all(ByteSpan bytes, const array::Schema& schema) {
  BatchHeader header;
  try {
    const Message message = Message::parse(bytes, {}, "mutated");
    switch (message.kind()) {
      case MessageKind::kSchema: message.schema()->to_string(); break;
      case MessageKind::kDictionaryBatch: message.dictionary_id(); [[fallthrough]];
      case MessageKind::kRecordBatch:
        message.batch(schema, &header);
        // What batch() lets through fits the schema and the body.
        ASSERT_EQ(header.nodes.size(), schema.nodes().size());
        ASSERT_EQ(header.variadic_counts.size(), static_cast<std::size_t>(schema.n_variadic()));
        ASSERT_EQ(static_cast<std::int64_t>(header.buffers.size()),
                  std::accumulate(header.variadic_counts.begin(), header.variadic_counts.end(),
                                  std::int64_t{schema.n_buffers()}));
        for (const BufferRange& range : header.buffers) {
          ASSERT_GE(range.offset, 0);
          ASSERT_LE(range.length, header.body_length - range.offset);
        }
        break;
      default: FAIL() << "a kind that parse refuses";
    }
  } catch (const Error& error) {
    ASSERT_THAT(std::string(error.what()), HasSubstr("mutated"));
  }
}

struct Sample {
  std::vector<std::byte> bytes;
  std::shared_ptr<const array::Schema> schema;
};

std::vector<Sample> samples() {
  Encoder encoder;
  const auto all = every_type();
  const array::DictionarySlot& slot = all->dictionaries()[3];
  std::vector<Sample> out;
  out.push_back({to_vector(encoder.schema(*all)), all});
  out.push_back({to_vector(encoder.record_batch(make_batch(all, 9, true))), all});
  out.push_back({to_vector(encoder.dictionary_batch(make_batch(slot.values, 9, true), slot.id, false)), slot.values});
  return out;
}

TEST(Message, TruncatedAnywhere) {
  for (const Sample& sample : samples()) {
    for (std::size_t n = 0; n < sample.bytes.size(); ++n) {
      // A copy of its own size, so that the sanitizer sees a read past the end.
      const std::vector<std::byte> cut(sample.bytes.begin(), sample.bytes.begin() + static_cast<std::ptrdiff_t>(n));
      read_all(cut, *sample.schema);
      if (n < sample.bytes.size() / 2) {
        EXPECT_THROW(Message::parse(cut, {}, "cut"), InvalidDataError) << n;
      }
    }
  }
}

TEST(Message, EveryByteFlipped) {
  for (Sample& sample : samples()) {
    for (std::size_t i = 0; i < sample.bytes.size(); ++i) {
      const std::byte original = sample.bytes[i];
      for (const unsigned flip : {0x01u, 0x04u, 0x20u, 0x80u, 0xffu}) {
        sample.bytes[i] = original ^ static_cast<std::byte>(flip);
        read_all(sample.bytes, *sample.schema);
      }
      sample.bytes[i] = original;
    }
  }
}

TEST(Message, WordsReplaced) {
  for (Sample& sample : samples()) {
    for (std::size_t i = 0; i + 8 <= sample.bytes.size(); i += 4) {
      const auto original = load_le<std::uint64_t>(sample.bytes.data() + i);
      for (const std::uint64_t word : {0ull, ~0ull, 0x7fffffffffffffffull, 0x8000000000000000ull, 0x7fffffffull}) {
        store_le(sample.bytes.data() + i, word);
        read_all(sample.bytes, *sample.schema);
      }
      store_le(sample.bytes.data() + i, original);
    }
  }
}

TEST(Message, StartsAtAnyAddress) {
  Encoder encoder;
  const auto schema = floats(4);
  const ByteSpan bytes = encoder.record_batch(make_batch(schema, 6));
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> moved(bytes.size() + shift);
    std::memcpy(moved.data() + shift, bytes.data(), bytes.size());
    BatchHeader header;
    Message::parse(ByteSpan(moved).subspan(shift), {}, "moved").batch(*schema, &header);
    EXPECT_EQ(header.num_rows, 6);
  }
}

TEST(Message, VersionsFourAndFiveOnly) {
  const auto with = [](int version) {
    return [version](FlatBufferBuilder& b) {
      return flatbuf::CreateMessage(b, static_cast<flatbuf::MetadataVersion>(version), flatbuf::MessageHeader::Schema,
                                    flatbuf::CreateSchema(b).Union());
    };
  };
  for (const int version : {3, 4}) {
    const auto bytes = built(with(version));
    EXPECT_EQ(Message::parse(bytes, {}, "made by hand").kind(), MessageKind::kSchema);
  }
  EXPECT_THAT(parse_error<UnsupportedTypeError>(with(0)), HasSubstr("version V1"));
  EXPECT_THAT(parse_error<UnsupportedTypeError>(with(2)), HasSubstr("version V3"));
  EXPECT_THAT(parse_error<UnsupportedTypeError>(with(5)), HasSubstr("version V6"));
  EXPECT_NE(parse_error<UnsupportedTypeError>(with(-1)), "");
}

TEST(Message, HeadersThatWeDontCarry) {
  using H = flatbuf::MessageHeader;
  const auto with = [](H kind, bool present) {
    return [kind, present](FlatBufferBuilder& b) {
      const auto header = present ? flatbuf::CreateSparseTensor(b).Union() : flatbuffers::Offset<void>();
      return flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V5, kind, header);
    };
  };
  EXPECT_THAT(parse_error<UnsupportedTypeError>(with(H::SparseTensor, true)), HasSubstr("SparseTensor"));
  EXPECT_THAT(parse_error<UnsupportedTypeError>(with(static_cast<H>(77), true)), HasSubstr("77"));
  EXPECT_THAT(parse_error<InvalidDataError>(with(H::NONE, false)), HasSubstr("no header"));
  EXPECT_THAT(parse_error<InvalidDataError>(with(H::Schema, false)), HasSubstr("absent"));
  EXPECT_THAT(parse_error<InvalidDataError>(with(H::RecordBatch, false)), HasSubstr("absent"));
}

TEST(Message, NegativeBodyLength) {
  EXPECT_THAT(parse_error<InvalidDataError>([](FlatBufferBuilder& b) {
                return flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V5, flatbuf::MessageHeader::RecordBatch,
                                              flatbuf::CreateRecordBatch(b).Union(), -8);
              }),
              HasSubstr("-8"));
}

TEST(Message, MetadataOverItsLimit) {
  Encoder encoder;
  const ByteSpan bytes = encoder.schema(*floats(10));
  const Limits limits{.max_metadata_bytes = 100};
  EXPECT_THAT(error_of<InvalidDataError>([&] { Message::parse(bytes, limits, "too big"); }), HasSubstr("limit of 100"));
  std::vector<std::byte> moved(bytes.size() + 1);
  EXPECT_THAT(error_of<InvalidDataError>([&] { Message::parse(ByteSpan(moved).subspan(1), limits, "too big"); }),
              HasSubstr("limit of 100"));
}

TEST(Message, AskedForWhatItIsNot) {
  Encoder encoder;
  const auto schema = floats(1);
  BatchHeader header;
  const Message as_schema = Message::parse(encoder.schema(*schema), {}, "a schema");
  EXPECT_THROW(as_schema.batch(*schema, &header), InvalidArgumentError);
  EXPECT_THROW(as_schema.dictionary_id(), InvalidArgumentError);
  const Message as_batch = Message::parse(encoder.record_batch(make_batch(schema, 1)), {}, "a batch");
  EXPECT_THROW(as_batch.schema(), InvalidArgumentError);
  EXPECT_THROW(as_batch.dictionary_id(), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::ipc::testing
