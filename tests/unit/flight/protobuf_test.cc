#include "flight/protobuf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>

#include "crossdock/core/error.h"

namespace crossdock::flight {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

// The examples of protobuf.dev, "Encoding".
TEST(Protobuf, IsWrittenAsItsPageShows) {
  EXPECT_THAT(ProtoWriter().integer(1, 150).take(), ElementsAreArray(bytes({0x08, 0x96, 0x01})));
  EXPECT_THAT(ProtoWriter().text(2, "testing").take(),
              ElementsAreArray(bytes({0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g'})));
  ProtoWriter inner;
  inner.integer(1, 150);
  EXPECT_THAT(ProtoWriter().nested(3, inner).take(), ElementsAreArray(bytes({0x1a, 0x03, 0x08, 0x96, 0x01})));
  EXPECT_THAT(ProtoWriter().bytes_follow(1000, 300).take(), ElementsAreArray(bytes({0xc2, 0x3e, 0xac, 0x02})));
}

TEST(Protobuf, ReadsEachWireType) {
  const auto message = bytes({0x08, 0x96, 0x01, 0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, 'h', 'i', 0x25, 5, 0, 0, 0});
  ProtoReader reader(message, "a message");
  auto field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 1u);
  EXPECT_EQ(reader.integer(*field), 150u);
  field = reader.next();
  EXPECT_EQ(field->type, WireType::kFixed64);
  EXPECT_EQ(field->integer, 1u);
  field = reader.next();
  EXPECT_EQ(reader.text(*field), "hi");
  field = reader.next();
  EXPECT_EQ(field->type, WireType::kFixed32);
  EXPECT_EQ(field->integer, 5u);
  EXPECT_FALSE(reader.next());
}

TEST(Protobuf, KeepsTheLargestNumbers) {
  const auto message = ProtoWriter().integer(1, std::numeric_limits<std::uint64_t>::max()).take();
  ProtoReader reader(message, "a message");
  EXPECT_EQ(reader.next()->integer, std::numeric_limits<std::uint64_t>::max());
}

TEST(Protobuf, RefusesWhatIsNoMessage) {
  const struct {
    std::vector<std::byte> message;
    const char* what;
  } cases[] = {
      {bytes({0x08}), "is cut"},
      {bytes({0x12, 5, 'a'}), "needs 5 bytes, and 1 are left"},
      {bytes({0x11, 1, 2, 3}), "needs 8 bytes"},
      {bytes({0x02, 0}), "field of number 0"},
      {bytes({0x0b}), "wire type 3"},
      {bytes({0x0f}), "wire type 7"},
      {bytes({0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}), "over 64 bits"},
      {bytes({0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}), "over 64 bits"},
      {bytes({0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}), "is cut"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT([&] { ProtoReader(one.message, "a Ticket").next(); },
                ThrowsMessage<ProtocolError>(::testing::AllOf(HasSubstr("a Ticket"), HasSubstr(one.what))));
  }
}

TEST(Protobuf, NamesAFieldOfAnotherType) {
  const auto number = ProtoWriter().integer(4, 1).take();
  ProtoReader reader(number, "a Ticket");
  const auto field = *reader.next();
  EXPECT_THAT([&] { reader.bytes(field); },
              ThrowsMessage<ProtocolError>(HasSubstr("field 4 of wire type 0 instead of 2")));
  EXPECT_THAT([&] { reader.real(field); }, ThrowsMessage<ProtocolError>(HasSubstr("instead of 1")));
  const auto text = ProtoWriter().bytes(2, bytes({0xff})).take();
  ProtoReader of_text(text, "a Ticket");
  const auto bad = *of_text.next();
  EXPECT_THAT([&] { of_text.text(bad); }, ThrowsMessage<ProtocolError>(HasSubstr("isn't UTF-8")));
}

}  // namespace
}  // namespace crossdock::flight
