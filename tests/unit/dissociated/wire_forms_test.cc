#include <algorithm>

#include "crossdock/core/error.h"
#include "dissociated/receiver.h"
#include "dissociated/sender.h"
#include "support.h"
#include "support/freed.h"

/// Every message of the protocol as the bytes that stand on the wire, written by hand from the text: what Sender and
/// the writers make must be these bytes, and what Receiver and Sender are given is these bytes. Nothing here is
/// computed by the code under test, so that a mistake that both ends share is seen. Names in quotation marks are the
/// sections of the specification.
namespace crossdock::dissociated {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Item = Receiver::Item;

std::vector<std::byte> joined(std::vector<std::byte> first, const std::vector<std::byte>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// clang-format off

/// Message.fbs, Message of a Schema with the one field "x: int64 not null", laid out by hand: another layout than the
/// codec's, and as good.
std::vector<std::byte> schema_flatbuffer() {
  return bytes({
      16, 0, 0, 0,                                              // 0: the root table is at 16
      12, 0, 20, 0, 16, 0, 18, 0, 4, 0, 8, 0,                   // 4: vtable: version, header_type, header, bodyLength
      12, 0, 0, 0,                                              // 16: Message: its vtable is 12 before
      24, 0, 0, 0,                                              // 20: header: at 44
      0, 0, 0, 0, 0, 0, 0, 0,                                   // 24: bodyLength 0
      4, 0,                                                     // 32: version V5
      1, 0,                                                     // 34: header_type Schema; padding
      8, 0, 8, 0, 0, 0, 4, 0,                                   // 36: vtable: endianness (absent: little), fields
      8, 0, 0, 0,                                               // 44: Schema
      4, 0, 0, 0,                                               // 48: fields: at 52
      1, 0, 0, 0, 20, 0, 0, 0,                                  // 52: one field: at 76
      16, 0, 18, 0, 4, 0, 16, 0, 17, 0, 8, 0, 0, 0, 12, 0,      // 60: vtable: name, nullable, type_type, type, -, children
      16, 0, 0, 0,                                              // 76: Field
      16, 0, 0, 0,                                              // 80: name: at 96
      32, 0, 0, 0,                                              // 84: type: at 116
      16, 0, 0, 0,                                              // 88: children: at 104
      0, 2, 0, 0,                                               // 92: not nullable; type_type Int; padding
      1, 0, 0, 0, 'x', 0, 0, 0,                                 // 96: "x"
      0, 0, 0, 0,                                               // 104: no children
      8, 0, 9, 0, 4, 0, 8, 0,                                   // 108: vtable: bitWidth, is_signed
      8, 0, 0, 0,                                               // 116: Int
      64, 0, 0, 0,                                              // 120: bitWidth 64
      1, 0, 0, 0,                                               // 124: is_signed; padding
  });
}

/// Message.fbs, Message of a RecordBatch of 3 rows: no validity, 24 bytes of values, a body of 64.
std::vector<std::byte> batch_flatbuffer() {
  return bytes({
      16, 0, 0, 0,                                              // 0: the root table is at 16
      12, 0, 20, 0, 16, 0, 18, 0, 4, 0, 8, 0,                   // 4: vtable: version, header_type, header, bodyLength
      12, 0, 0, 0,                                              // 16: Message
      28, 0, 0, 0,                                              // 20: header: at 48
      64, 0, 0, 0, 0, 0, 0, 0,                                  // 24: bodyLength 64
      4, 0,                                                     // 32: version V5
      3, 0,                                                     // 34: header_type RecordBatch; padding
      10, 0, 20, 0, 8, 0, 4, 0, 16, 0, 0, 0,                    // 36: vtable: length, nodes, buffers; padding
      12, 0, 0, 0,                                              // 48: RecordBatch
      16, 0, 0, 0,                                              // 52: nodes: at 68
      3, 0, 0, 0, 0, 0, 0, 0,                                   // 56: length 3
      28, 0, 0, 0,                                              // 64: buffers: at 92
      1, 0, 0, 0,                                               // 68: one node
      3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,           // 72: length 3, no nulls
      0, 0, 0, 0,                                               // 88: padding
      2, 0, 0, 0,                                               // 92: two buffers
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,           // 96: validity: absent
      0, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0,          // 112: values: at 0, 24 bytes
  });
}

/// "Data Stream Sequence", body type 1: total and count, then a pair for each buffer.
std::vector<std::byte> table_of_addresses() {
  return bytes({
      24, 0, 0, 0, 0, 0, 0, 0,                                  // all buffers together: 24 bytes
      2, 0, 0, 0, 0, 0, 0, 0,                                   // two buffers
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,           // validity: absent
      64, 0, 0, 0, 0, 0, 3, 0, 24, 0, 0, 0, 0, 0, 0, 0,         // values: region 3, offset 64; 24 bytes
  });
}

// clang-format on

constexpr std::uint64_t kAddress = 0x0003000000000040;

// Tags as a transport hands them over: numbers, whose little-endian bytes stand beside them.
constexpr std::uint64_t kWantInFigures = 0x8877665544332211;  // 11 22 33 44 55 66 77 88
constexpr std::uint64_t kFreeInFigures = 0x00000000000000F0;  // F0 00 00 00 00 00 00 00

class WireForms : public ::testing::Test {
 protected:
  void ask() { ASSERT_EQ(sender_.on_tagged(kWantInFigures, bytes_of("t"), &freed_), Sender::Action::kWantData); }

  Sender sender_{kWantInFigures, kFreeInFigures, {.error_messages = true, .counted_leases = true, .cancel = true}};
  Receiver receiver_;
  std::vector<Freed> freed_;
};

// "Metadata Stream Sequence": "waiting for a tagged message with a specific <want_data> tag value"; "URI
// Specification": its body is "an opaque binary identifier".
TEST_F(WireForms, WantDataIsTheTagOfTheUriAndAnOpaqueBody) {
  for (const std::vector<std::byte>& ticket : {bytes({}), bytes({0}), bytes({0xFF, 0x00, 0xC3, 0x28})}) {
    EXPECT_EQ(sender_.on_tagged(kWantInFigures, ticket, &freed_), Sender::Action::kWantData);
    EXPECT_TRUE(sender_.streaming());
    sender_.next_message();
    sender_.end_of_stream();
  }
}

// "Metadata Stream Sequence": "A 5-byte prefix"; "the first message in the stream (MUST always be a schema message)
// MUST have a sequence number of 0. Each subsequent message MUST increment the number by 1"; End of Stream is "exactly
// 5 bytes". Its number, last + 1, is decided (docs/reference/protocol.md).
TEST_F(WireForms, PrefixesAreTypeAndNumber) {
  ask();
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({0x01, 0x00, 0x00, 0x00, 0x00}));
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({0x01, 0x01, 0x00, 0x00, 0x00}));
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({0x01, 0x02, 0x00, 0x00, 0x00}));
  EXPECT_EQ(to_vector(sender_.end_of_stream()), bytes({0x00, 0x03, 0x00, 0x00, 0x00}));
}

// "Sequence Number": "A little-endian, 4-byte unsigned integer"; "If a sequence number reaches UINT32_MAX, it should be
// allowed to roll over".
TEST_F(WireForms, NumbersAreLittleEndianAndRollOver) {
  ask();
  sender_.set_next_sequence(0x01020304);
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({0x01, 0x04, 0x03, 0x02, 0x01}));
  sender_.set_next_sequence(0x7FFFFFFF);
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({0x01, 0xFF, 0xFF, 0xFF, 0x7F}));
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({0x01, 0x00, 0x00, 0x00, 0x80}));
  sender_.set_next_sequence(0xFFFFFFFF);
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({0x01, 0xFF, 0xFF, 0xFF, 0xFF}));
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({0x01, 0x00, 0x00, 0x00, 0x00}));
  EXPECT_EQ(to_vector(sender_.end_of_stream()), bytes({0x00, 0x01, 0x00, 0x00, 0x00}));
}

// "Data Stream Sequence": "the least significant 4-bytes (bits 0 - 31)" the number, "the most significant byte (bits 56
// - 63)" the body type, "All unspecified bits (bits 32 - 55) [...] MUST be 0".
TEST_F(WireForms, TagsAreNumberAndBodyType) {
  ask();
  sender_.set_next_sequence(0xA1B2C3D4);
  sender_.next_message();
  EXPECT_EQ(sender_.body_tag(BodyType::kPacked), 0x00000000A1B2C3D4u);
  EXPECT_EQ(sender_.body_tag(BodyType::kRemote), 0x01000000A1B2C3D4u);
}

// "Data Stream Sequence", body type 1: "the total size (in bytes) of all buffers and the number of buffers", then "an
// address / offset followed [by] the length of that particular buffer", all "unsigned, little-endian 64-bit".
TEST_F(WireForms, ATableOfAddressesIsTotalCountAndPairs) {
  std::vector<std::byte> body;
  const RemoteBuffer buffers[] = {{0, 0}, {kAddress, 24}};
  write_remote_body(buffers, &body);
  EXPECT_EQ(body, table_of_addresses());
  std::vector<RemoteBuffer> read;
  read_remote_body(table_of_addresses(), &read);
  EXPECT_THAT(read, ElementsAre(RemoteBuffer{0, 0}, RemoteBuffer{kAddress, 24}));
}

// "Client Sequence": an untagged message of type 1 with the flatbuffer's bytes alone behind its prefix, its body tagged
// with its number; type 0, "the raw IPC packed body buffers".
TEST_F(WireForms, ReadsAStreamOfPackedBodies) {
  receiver_.on_untagged(joined(bytes({0x01, 0x00, 0x00, 0x00, 0x00}), schema_flatbuffer()));
  receiver_.on_untagged(joined(bytes({0x01, 0x01, 0x00, 0x00, 0x00}), batch_flatbuffer()));
  std::vector<std::byte> body(64);
  body[0] = std::byte{0x2A};
  receiver_.on_tagged(0x0000000000000001, body);
  receiver_.on_untagged(bytes({0x00, 0x02, 0x00, 0x00, 0x00}));

  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->message_kind, ipc::MessageKind::kSchema);
  EXPECT_EQ(to_vector(item->metadata), schema_flatbuffer());
  const auto schema = item->message->schema();
  ASSERT_EQ(schema->fields().size(), 1u);
  EXPECT_EQ(schema->fields()[0].name, "x");
  EXPECT_EQ(schema->fields()[0].type.id, array::TypeId::kInt64);

  item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->sequence, 1u);
  EXPECT_EQ(item->message_kind, ipc::MessageKind::kRecordBatch);
  EXPECT_EQ(to_vector(item->metadata), batch_flatbuffer());
  EXPECT_EQ(item->body_type, BodyType::kPacked);
  EXPECT_EQ(to_vector(item->body), body);
  ipc::BatchHeader header;
  item->message->batch(*schema, &header);
  EXPECT_EQ(header.num_rows, 3);
  EXPECT_EQ(header.body_length, 64);
  ASSERT_EQ(header.buffers.size(), 2u);
  EXPECT_EQ(header.buffers[1].length, 24);

  item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kEnd);
}

// "Client Sequence": "If the most significant byte is 1: the body of the message will consist of a series of pairs";
// the tag is matched with the mask 0x00000000FFFFFFFF.
TEST_F(WireForms, ReadsAStreamOfAddresses) {
  receiver_.on_untagged(bytes({0x00, 0x02, 0x00, 0x00, 0x00}));
  receiver_.on_tagged(0x0100000000000001, table_of_addresses());
  receiver_.on_untagged(joined(bytes({0x01, 0x01, 0x00, 0x00, 0x00}), batch_flatbuffer()));
  EXPECT_EQ(receiver_.next(), nullptr);
  receiver_.on_untagged(joined(bytes({0x01, 0x00, 0x00, 0x00, 0x00}), schema_flatbuffer()));
  ASSERT_NE(receiver_.next(), nullptr);
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->body_type, BodyType::kRemote);
  EXPECT_EQ(to_vector(item->body), table_of_addresses());
  item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kEnd);
}

// "Data Stream Sequence": "one or more unsigned, little-endian 64-bit integers which indicate the addresses/offsets
// that can be freed"; "Client Sequence": "an arbitrary number", in as many messages as the client likes.
TEST_F(WireForms, FreeDataIsAddresses) {
  ask();
  const RemoteBuffer lent[] = {{kAddress, 24}, {0x80, 1}, {0xC0, 1}};
  sender_.leases().lend(lent, 7);
  const auto one = bytes({0x40, 0, 0, 0, 0, 0, 0x03, 0});
  EXPECT_EQ(sender_.on_tagged(kFreeInFigures, one, &freed_), Sender::Action::kFreed);
  EXPECT_THAT(holders(freed_), ElementsAre(7));
  const auto two = bytes({0xC0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(sender_.on_tagged(kFreeInFigures, two, &freed_), Sender::Action::kFreed);
  EXPECT_THAT(holders(freed_), ElementsAre(7, 7, 7));
  EXPECT_EQ(sender_.leases().outstanding(), 0u);
}

// Ours (docs/reference/protocol.md, "Metadata messages"): type 255, the next number, a reason in UTF-8.
TEST_F(WireForms, AnErrorIsType255TheNextNumberAndAReason) {
  ask();
  sender_.next_message();
  sender_.next_message();
  const std::vector<std::byte> message = bytes({0xFF, 0x02, 0x00, 0x00, 0x00, 'N', 'o', ':', ' ', 0xC3, 0xA9});
  EXPECT_EQ(sender_.error("No: \xC3\xA9"), message);

  receiver_.on_untagged(message);
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kError);
  EXPECT_EQ(item->sequence, 2u);
  EXPECT_EQ(to_vector(item->metadata), bytes({'N', 'o', ':', ' ', 0xC3, 0xA9}));
}

// Ours (feature bit 3 of docs/reference/protocol-shm.md): the client's cancel is an End of Stream message of exactly 5
// bytes whose number means nothing. To a client that follows the text alone it is no message at all.
TEST_F(WireForms, ACancelIsAnEndOfStreamFromTheClient) {
  const auto cancel = bytes({0x00, 0xAB, 0xCD, 0xEF, 0x01});
  EXPECT_FALSE(sender_.on_untagged(cancel));  // it crossed with the end
  ask();
  EXPECT_TRUE(sender_.on_untagged(cancel));
  EXPECT_TRUE(sender_.streaming());  // until the server ends it
  for (const auto& other : {bytes({0x01, 0, 0, 0, 0}), bytes({0xFF, 0, 0, 0, 0}), bytes({0x00, 0, 0, 0}),
                            bytes({0x00, 0, 0, 0, 0, 0}), bytes({})}) {
    EXPECT_THROW(sender_.on_untagged(other), ProtocolError);
  }
  Sender as_specified(kWantInFigures, kFreeInFigures);
  EXPECT_EQ(as_specified.on_tagged(kWantInFigures, {}, &freed_), Sender::Action::kWantData);
  EXPECT_ERROR(as_specified.on_untagged(cancel), ProtocolError, "clients send tagged ones only");
  EXPECT_THAT(as_specified.error("no"), IsEmpty());
}

}  // namespace
}  // namespace crossdock::dissociated
