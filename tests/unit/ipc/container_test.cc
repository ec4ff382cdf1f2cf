#include "ipc/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "container_writer.h"
#include "crossdock/core/error.h"
#include "memory_sink.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::TypeId;
using Prefix = ContainerWriter::Prefix;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// One float64 column and one dictionary-encoded string column.
std::shared_ptr<const array::Schema> small() {
  return std::make_shared<const array::Schema>(
      std::vector{field("x", TypeId::kFloat64), dictionary("name", TypeId::kInt32, field("", TypeId::kUtf8), 4)});
}

template <class E>
std::string error(ByteSpan bytes) {
  return error_of<E>([&] { read_container(bytes, "flights.arrow", {}); });
}

struct Written {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> ends;  ///< Where a message ends: a stream may be cut there.
};

Written stream(Prefix prefix, bool with_end = true) {
  const auto schema = small();
  Encoder encoder;
  ContainerWriter writer(prefix);
  Written out;
  const auto put = [&](ByteSpan metadata) {
    writer.message(metadata);
    out.ends.push_back(writer.out.size());
  };
  put(encoder.schema(*schema));
  put(encoder.dictionary_batch(make_batch(schema->dictionaries()[0].values, 3), 4, false));
  put(encoder.record_batch(make_batch(schema, 10)));
  put(encoder.dictionary_batch(make_batch(schema->dictionaries()[0].values, 2), 4, true));
  put(encoder.record_batch(make_batch(schema, 5, true)));
  put(encoder.dictionary_batch(make_batch(schema->dictionaries()[0].values, 1), 4, false));
  put(encoder.record_batch(make_batch(schema, 0)));
  if (with_end) writer.end_of_stream();
  out.bytes = std::move(writer.out);
  return out;
}

/// What a file's parts may be bent to before it is finished.
struct Bend {
  std::function<void(std::vector<flatbuf::Block>*)> dictionaries = [](auto*) {};
  std::function<void(std::vector<flatbuf::Block>*)> batches = [](auto*) {};
  flatbuf::MetadataVersion version = flatbuf::MetadataVersion::V5;
};

std::vector<std::byte> file(const Bend& bend = {}, Prefix prefix = Prefix::kMarker) {
  const auto schema = small();
  Encoder encoder;
  ContainerWriter writer(prefix);
  writer.head();
  const auto schema_message = to_vector(encoder.schema(*schema));
  writer.message(schema_message);
  std::vector<flatbuf::Block> dictionaries, batches;
  dictionaries.push_back(
      writer.message(encoder.dictionary_batch(make_batch(schema->dictionaries()[0].values, 3), 4, false)));
  batches.push_back(writer.message(encoder.record_batch(make_batch(schema, 10))));
  batches.push_back(writer.message(encoder.record_batch(make_batch(schema, 6, true))));
  writer.end_of_stream();
  bend.dictionaries(&dictionaries);
  bend.batches(&batches);
  writer.footer(schema_message, dictionaries, batches, bend.version);
  return std::move(writer.out);
}

void expect_bodies_follow(ByteSpan bytes, const Container& container) {
  for (const ContainerMessage& message : container.messages) {
    ASSERT_LE(message.body_offset + message.body_length, static_cast<std::int64_t>(bytes.size()));
    const Message parsed = Message::parse(bytes.subspan(static_cast<std::size_t>(message.metadata_offset),
                                                        static_cast<std::size_t>(message.metadata_length)),
                                          {}, "listed message");
    EXPECT_EQ(parsed.kind(), message.kind);
    EXPECT_EQ(parsed.body_length(), message.body_length);
  }
}

TEST(Container, StreamInBothEncapsulations) {
  for (const Prefix prefix : {Prefix::kMarker, Prefix::kLegacy}) {
    const Written written = stream(prefix);
    const Container container = read_container(written.bytes, "flights.arrow", {});
    EXPECT_TRUE(*container.schema == *small());
    EXPECT_EQ(container.num_rows, 15);
    ASSERT_EQ(container.messages.size(), 6u);
    using K = MessageKind;
    const K kinds[] = {K::kDictionaryBatch, K::kRecordBatch,     K::kDictionaryBatch,
                       K::kRecordBatch,     K::kDictionaryBatch, K::kRecordBatch};
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(container.messages[i].kind, kinds[i]) << i;
    expect_bodies_follow(written.bytes, container);
  }
}

TEST(Container, StreamMayEndWithoutMarkerOnlyBetweenMessages) {
  for (const Prefix prefix : {Prefix::kMarker, Prefix::kLegacy}) {
    const Written written = stream(prefix, false);
    for (std::size_t n = 1; n <= written.bytes.size(); ++n) {
      const std::vector<std::byte> cut(written.bytes.begin(), written.bytes.begin() + static_cast<std::ptrdiff_t>(n));
      const auto at_end = std::find(written.ends.begin(), written.ends.end(), n);
      if (at_end != written.ends.end()) {
        EXPECT_EQ(read_container(cut, "flights.arrow", {}).messages.size(),
                  static_cast<std::size_t>(at_end - written.ends.begin()));
      } else {
        const std::string text = error<InvalidDataError>(cut);
        EXPECT_THAT(text, HasSubstr("flights.arrow is truncated: at byte")) << n;
      }
    }
  }
}

TEST(Container, StreamAfterItsEnd) {
  std::vector<std::byte> bytes = stream(Prefix::kMarker).bytes;
  bytes.resize(bytes.size() + 4096);
  EXPECT_EQ(read_container(bytes, "flights.arrow", {}).num_rows, 15) << "zeros are a file's unused rest";
  std::vector<std::byte> two = stream(Prefix::kMarker).bytes;
  const auto again = two;
  two.insert(two.end(), again.begin(), again.end());
  EXPECT_THAT(error<InvalidDataError>(two), HasSubstr("a file holds one stream"));
}

TEST(Container, StreamsThatBreakTheOrder) {
  const auto schema = small();
  Encoder encoder;
  ContainerWriter no_schema;
  no_schema.message(encoder.record_batch(make_batch(schema, 1)));
  EXPECT_THAT(error<InvalidDataError>(no_schema.out), HasSubstr("doesn't begin with a schema"));
  ContainerWriter only_end;
  only_end.end_of_stream();
  EXPECT_THAT(error<InvalidDataError>(only_end.out), HasSubstr("ends before its schema"));
  ContainerWriter two_schemas;
  two_schemas.message(encoder.schema(*schema));
  two_schemas.message(encoder.schema(*schema));
  EXPECT_THAT(error<InvalidDataError>(two_schemas.out), HasSubstr("which isn't allowed here"));
  ContainerWriter unknown_dictionary;
  unknown_dictionary.message(encoder.schema(*schema));
  unknown_dictionary.message(encoder.dictionary_batch(make_batch(schema->dictionaries()[0].values, 1), 5, false));
  EXPECT_THAT(error<InvalidDataError>(unknown_dictionary.out), HasSubstr("dictionary 5 isn't used by any field"));
  ContainerWriter other_batch;
  other_batch.message(encoder.schema(*schema));
  other_batch.message(encoder.record_batch(make_batch(floats(7), 1)));
  EXPECT_THAT(error<InvalidDataError>(other_batch.out), HasSubstr("7 field nodes"));
}

TEST(Container, StreamWithNestedDictionaries) {
  const auto schema = every_type();
  Encoder encoder;
  ContainerWriter writer;
  writer.message(encoder.schema(*schema));
  for (const std::int64_t id : {9, 8, 7, 0}) {
    writer.message(encoder.dictionary_batch(make_batch(schema->find_dictionary(id), 4), id, false));
  }
  writer.message(encoder.record_batch(make_batch(schema, 3, true)));
  EXPECT_EQ(read_container(writer.out, "flights.arrow", {}).messages.size(), 5u);
}

TEST(Container, StreamLengthsOutOfRange) {
  const auto with_length = [](std::int32_t length) {
    ContainerWriter writer;
    writer.message(Encoder().schema(*small()));
    writer.int32(-1);
    writer.int32(length);
    writer.text("12345678");
    return writer.out;
  };
  EXPECT_THAT(error<InvalidDataError>(with_length(-2)), HasSubstr("length -2"));
  EXPECT_THAT(error<InvalidDataError>(with_length(9)), HasSubstr("truncated"));
  EXPECT_THAT(error<InvalidDataError>(with_length(0x7fffffff)), HasSubstr("over the limit"));
  EXPECT_THAT(error<InvalidDataError>(with_length(8)), HasSubstr("well-formed"));
}

TEST(Container, FileListsDictionariesFirst) {
  for (const Prefix prefix : {Prefix::kMarker, Prefix::kLegacy}) {
    const auto bytes = file({}, prefix);
    const Container container = read_container(bytes, "flights.arrow", {});
    EXPECT_TRUE(*container.schema == *small());
    EXPECT_EQ(container.num_rows, 16);
    ASSERT_EQ(container.messages.size(), 3u);
    EXPECT_EQ(container.messages[0].kind, MessageKind::kDictionaryBatch);
    EXPECT_EQ(container.messages[2].kind, MessageKind::kRecordBatch);
    expect_bodies_follow(bytes, container);
    for (const ContainerMessage& message : container.messages) EXPECT_EQ(message.body_offset % 8, 0);
  }
}

TEST(Container, FileListsDictionariesAfterThoseThatTheyNeed) {
  const array::Field text = field("", array::TypeId::kUtf8);
  const array::Field inner = dictionary("item", array::TypeId::kInt8, text, 1);
  const array::Field list = field("", array::Type{.id = array::TypeId::kList}, {inner});
  const auto schema =
      std::make_shared<const array::Schema>(std::vector{dictionary("outer", array::TypeId::kInt8, list, 2)});
  MemorySink sink;
  FileWriter writer(&sink, schema);
  array::RecordBatch batch = make_batch(schema, 0);
  auto outer_values = make_batch(schema->find_dictionary(2), 1);
  outer_values.dictionaries = {std::make_shared<const array::RecordBatch>(make_batch(schema->find_dictionary(1), 1))};
  batch.dictionaries = {std::make_shared<const array::RecordBatch>(std::move(outer_values))};
  writer.write(batch);
  writer.finish();
  const auto order = [&] {
    std::vector<std::uint64_t> memory;
    std::vector<std::int64_t> ids;
    const Container container = read_container(sink.bytes, "flights.arrow", {});
    for (const ContainerMessage& place : container.messages) {
      const Message message = read_message(MemorySource(sink.bytes), place, "a listed message", {}, &memory);
      if (message.kind() == MessageKind::kDictionaryBatch) ids.push_back(message.dictionary_id());
    }
    return ids;
  };
  EXPECT_THAT(order(), ElementsAre(1, 2));

  constexpr std::size_t kTail = 10;
  std::byte* const end = sink.bytes.data() + sink.bytes.size() - kTail;
  const auto* footer = flatbuffers::GetRoot<flatbuf::Footer>(end - load_le<std::int32_t>(end));
  ASSERT_EQ(footer->dictionaries()->size(), 2u);
  auto* const blocks = const_cast<std::uint8_t*>(footer->dictionaries()->Data());
  std::swap_ranges(blocks, blocks + sizeof(flatbuf::Block), blocks + sizeof(flatbuf::Block));
  EXPECT_THAT(order(), ElementsAre(1, 2)) << "whatever the footer's order";
}

TEST(Container, FileAtAnyAddress) {
  const auto bytes = file();
  std::vector<std::byte> moved(bytes.size() + 3);
  std::copy(bytes.begin(), bytes.end(), moved.begin() + 3);
  EXPECT_EQ(read_container(ByteSpan(moved).subspan(3), "flights.arrow", {}).num_rows, 16);
}

TEST(Container, FileWithoutBlocksOrBatches) {
  const Bend none{[](auto* blocks) { blocks->clear(); }, [](auto* blocks) { blocks->clear(); }};
  const Container container = read_container(file(none), "flights.arrow", {});
  EXPECT_EQ(container.messages.size(), 0u);
  EXPECT_EQ(container.num_rows, 0);
}

TEST(Container, FileCutAnywhere) {
  const auto bytes = file();
  for (std::size_t n = 6; n < bytes.size(); ++n) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_THAT(error<InvalidDataError>(cut), HasSubstr("flights.arrow is truncated")) << n;
  }
}

TEST(Container, FileWithEveryByteFlipped) {
  auto bytes = file();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::byte original = bytes[i];
    for (const unsigned flip : {0x01u, 0x40u, 0xffu}) {
      bytes[i] = original ^ static_cast<std::byte>(flip);
      try {
        expect_bodies_follow(bytes, read_container(bytes, "flights.arrow", {}));
      } catch (const Error& error) {
        EXPECT_THAT(std::string(error.what()), HasSubstr("flights.arrow"));
      }
    }
    bytes[i] = original;
  }
}

TEST(Container, FooterLengths) {
  for (const std::int32_t length : {0, -1, 100'000, 0x7fffffff}) {
    auto bytes = file();
    store_le(bytes.data() + bytes.size() - 10, length);
    EXPECT_THAT(error<InvalidDataError>(bytes), HasSubstr("footer's length is " + std::to_string(length)));
  }
}

TEST(Container, FooterOfAnOldVersion) {
  Bend bend;
  // V1 is the field's default, which some writers leave out: the messages' versions decide.
  bend.version = flatbuf::MetadataVersion::V1;
  EXPECT_EQ(read_container(file(bend), "t", {}).version, 5);
  bend.version = flatbuf::MetadataVersion::V3;
  EXPECT_THAT(error<UnsupportedTypeError>(file(bend)), HasSubstr("version V3"));
}

TEST(Container, BlocksOutOfRange) {
  const auto with = [](std::int64_t offset, std::int32_t metadata, std::int64_t body) {
    Bend bend;
    bend.batches = [=](std::vector<flatbuf::Block>* blocks) { (*blocks)[0] = {offset, metadata, body}; };
    return error<InvalidDataError>(file(bend));
  };
  for (const std::int64_t offset : {std::int64_t{-8}, std::int64_t{1} << 40, kMax, kMax - 8}) {
    EXPECT_THAT(with(offset, 64, 64), HasSubstr("end before the footer")) << offset;
  }
  EXPECT_THAT(with(8, 0, 64), HasSubstr("end before the footer"));
  EXPECT_THAT(with(8, -1, 64), HasSubstr("end before the footer"));
  EXPECT_THAT(with(8, 0x7fffffff, 64), HasSubstr("end before the footer"));
  EXPECT_THAT(with(8, 64, -64), HasSubstr("end before the footer"));
  EXPECT_NE(with(8, 4, 0), "") << "a block shorter than its prefix";
  EXPECT_NE(with(16, 64, 0), "") << "a block that starts within a message";
}

TEST(Container, ManyBlocksOfOneMessage) {
  Bend bend;
  bend.batches = [](std::vector<flatbuf::Block>* blocks) { blocks->resize(5000, blocks->front()); };
  EXPECT_THAT(error<InvalidDataError>(file(bend)), HasSubstr("overlapping"));
}

TEST(Container, BlocksOfAnotherKind) {
  Bend bend;
  std::vector<flatbuf::Block> kept;
  bend.dictionaries = [&](std::vector<flatbuf::Block>* blocks) { kept.swap(*blocks); };
  bend.batches = [&](std::vector<flatbuf::Block>* blocks) { blocks->push_back(kept.front()); };
  EXPECT_THAT(error<InvalidDataError>(file(bend)), HasSubstr("which isn't allowed here"));
}

TEST(Container, ReplacedDictionaryInTheFileForm) {
  Bend bend;
  bend.dictionaries = [](std::vector<flatbuf::Block>* blocks) { blocks->push_back(blocks->front()); };
  EXPECT_THAT(error<InvalidDataError>(file(bend)), HasSubstr("dictionary 4 is replaced"));
}

}  // namespace
}  // namespace crossdock::ipc::testing
