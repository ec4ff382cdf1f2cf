#include "flight/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "crossdock/core/error.h"
#include "flight/data_parts.h"
#include "flight/protobuf.h"
#include "samples.h"

namespace crossdock::flight {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FlightMessages, AreTheSameAfterTheyWereRead) {
  for (const Sample& sample : samples()) EXPECT_EQ(sample.again(sample.bytes), sample.bytes) << sample.name;
}

TEST(FlightMessages, MayBeCutAtAnyByte) {
  for (const Sample& sample : samples()) {
    for (std::size_t size = 0; size < sample.bytes.size(); ++size) {
      try {
        // What is left may be a message, of fewer fields.
        const Bytes again = sample.again(ByteSpan(sample.bytes).first(size));
        EXPECT_LE(again.size(), sample.bytes.size()) << sample.name << " cut at " << size;
      } catch (const ProtocolError& error) {
        EXPECT_THAT(error.what(), HasSubstr("is cut")) << sample.name << " cut at " << size;
      }
    }
  }
}

TEST(FlightMessages, SkipFieldsThatAreNotKnown) {
  for (const Sample& sample : samples()) {
    ProtoWriter more;
    more.integer(77, 1).text(78, "x").real(79, 0.5);
    Bytes longer = sample.bytes;
    longer.insert(longer.end(), more.view().begin(), more.view().end());
    EXPECT_EQ(sample.again(longer), sample.bytes) << sample.name;
  }
}

TEST(FlightMessages, RefuseFieldsOfAnotherType) {
  // A fixed32 in each field that is known.
  for (const Sample& sample : samples()) {
    int refused = 0;
    for (int field = 1; field <= 7; ++field) {
      Bytes message(5);
      message[0] = static_cast<std::byte>((field << 3) | 5);
      try {
        sample.again(message);
      } catch (const ProtocolError& error) {
        EXPECT_THAT(error.what(), HasSubstr("of wire type 5 instead of"));
        ++refused;
      }
    }
    EXPECT_GT(refused, 0) << sample.name;
  }
}

TEST(FlightMessages, HaveTheDefaultsOfProtobuf) {
  const FlightInfo info = decode_info({});
  EXPECT_EQ(info.records, 0);
  EXPECT_EQ(info.bytes, 0);
  EXPECT_FALSE(info.descriptor);
  EXPECT_TRUE(info.endpoints.empty());
}

TEST(FlightMessages, BoundWhatRepeats) {
  ProtoWriter path;
  for (std::size_t i = 0; i <= kMostRepeated; ++i) path.element(3, {});
  EXPECT_THAT([&] { decode_descriptor(path.view()); }, ThrowsMessage<ProtocolError>(HasSubstr("repeats a field over")));
}

TEST(FlightMessages, RefuseAnUnknownTypeOfDescriptor) {
  const Bytes message = ProtoWriter().integer(1, 3).take();
  EXPECT_THAT([&] { decode_descriptor(message); }, ThrowsMessage<ProtocolError>(HasSubstr("a type of 3")));
}

TEST(FlightMessages, DataHasItsBodyBehindItsHead) {
  const Bytes header = raw("header");
  const Bytes body = raw("the body");
  const FlightDescriptor name{.type = FlightDescriptor::Type::kPath, .path = {"x"}};
  Bytes message = encode_data_head(header, body.size(), &name);
  message.insert(message.end(), body.begin(), body.end());
  const FlightData data = decode_data(message);
  EXPECT_EQ(as_text(data.header), "header");
  EXPECT_EQ(as_text(data.body), "the body");
  EXPECT_EQ(data.descriptor, name);
  const FlightData bare = decode_data(encode_data_head(header, 0));
  EXPECT_TRUE(bare.body.empty());
  EXPECT_FALSE(bare.descriptor);
}

TEST(FlightMessages, DataIsReadFromAnyParts) {
  const FlightDescriptor name{.type = FlightDescriptor::Type::kPath, .path = {"x"}};
  Bytes message = encode_data_head(raw("header"), 300, &name);
  message.resize(message.size() + 300, std::byte{7});
  const Bytes metadata = ProtoWriter().text(3, "application").integer(99, 1).take();
  message.insert(message.end(), metadata.begin(), metadata.end());
  const FlightData whole = decode_data(message);
  for (std::size_t first = 0; first <= message.size(); ++first) {
    for (const std::size_t second : {first, (first + message.size()) / 2, message.size()}) {
      const ByteSpan all(message);
      const std::array<ByteSpan, 3> parts = {all.first(first), all.subspan(first, second - first), all.subspan(second)};
      const DataParts data = read_data(parts);
      EXPECT_EQ(data.descriptor, whole.descriptor);
      EXPECT_EQ(as_text(data.header), as_text(whole.header));
      EXPECT_EQ(as_text(data.app_metadata), "application");
      Bytes body(data.body_size);
      copy_out(parts, data.body_at, data.body_size, body.data());
      EXPECT_EQ(as_text(body), as_text(whole.body));
    }
  }
}

TEST(FlightMessages, DataInPartsMayBeCutAtAnyByte) {
  Bytes message = encode_data_head(raw("header"), 3);
  message.resize(message.size() + 3);
  for (std::size_t size = 1; size < message.size(); ++size) {
    const std::array<ByteSpan, 1> parts = {ByteSpan(message).first(size)};
    if (size == 8) continue;  // the header alone is a message
    EXPECT_THAT([&] { read_data(parts); }, ThrowsMessage<ProtocolError>(HasSubstr("is cut"))) << size;
  }
}

TEST(FlightMessages, DataHasFewFields) {
  ProtoWriter many;
  for (int i = 0; i < 65; ++i) many.integer(5, 1);
  const std::array<ByteSpan, 1> parts = {many.view()};
  EXPECT_THAT([&] { read_data(parts); }, ThrowsMessage<ProtocolError>(HasSubstr("over 64 fields")));
  const Bytes number = ProtoWriter().integer(2, 1).take();
  const std::array<ByteSpan, 1> wrong = {number};
  EXPECT_THAT([&] { read_data(wrong); }, ThrowsMessage<ProtocolError>(HasSubstr("field 2 of wire type 0")));
}

TEST(FlightMessages, SchemasAreEncapsulated) {
  const Bytes schema = raw("a schema");
  const Bytes longer = raw("a schema of 17 b.");
  EXPECT_EQ(as_text(decapsulated(encapsulated(schema), "x")), "a schema");
  const Bytes whole = encapsulated(longer);
  EXPECT_EQ(whole.size(), 8u + 24u);
  EXPECT_EQ(as_text(decapsulated(whole, "x").first(17)), "a schema of 17 b.");
  EXPECT_TRUE(encapsulated({}).empty());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT([&] { decapsulated(ByteSpan(whole).first(size), "the schema"); },
                ThrowsMessage<ProtocolError>(HasSubstr("the schema is no IPC message: it is cut")));
  }
  const Bytes old(ByteSpan(whole).begin() + 4, ByteSpan(whole).end());  // as before Arrow 0.15
  EXPECT_EQ(decapsulated(old, "x").size(), 24u);
  EXPECT_THAT([&] { decapsulated(Bytes(8), "the schema"); }, ThrowsMessage<ProtocolError>(HasSubstr("empty")));
}

}  // namespace
}  // namespace crossdock::flight
