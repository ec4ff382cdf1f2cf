#include "dissociated/receiver.h"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "crossdock/core/error.h"
#include "stream_support.h"

namespace crossdock::dissociated {
namespace {

using Item = Receiver::Item;

class ReceiverTest : public ::testing::Test {
 protected:
  /// The stream's schema came and was taken.
  void begin(Receiver& receiver) {
    receiver.on_untagged(make_.schema());
    const Item* item = receiver.next();
    ASSERT_NE(item, nullptr);
    ASSERT_EQ(item->message_kind, ipc::MessageKind::kSchema);
  }
  void expect_message(Receiver& receiver, std::uint32_t sequence) {
    const Item* item = receiver.next();
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->kind, Item::Kind::kMessage);
    EXPECT_EQ(item->sequence, sequence);
  }

  StreamMaker make_;
  Receiver receiver_;
};

// "Client Sequence".

TEST_F(ReceiverTest, JoinsMetadataWithItsBody) {
  EXPECT_EQ(receiver_.next(), nullptr);
  const std::vector<std::byte> schema = make_.schema();
  receiver_.on_untagged(schema);
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kMessage);
  EXPECT_EQ(item->sequence, 0u);
  EXPECT_EQ(item->message_kind, ipc::MessageKind::kSchema);
  EXPECT_EQ(to_vector(item->metadata), to_vector(ByteSpan(schema).subspan(kPrefixSize)));
  EXPECT_EQ(item->message->schema()->fields()[0].name, "x");
  EXPECT_TRUE(item->body.empty());
  EXPECT_EQ(receiver_.next(), nullptr);

  const std::vector<std::byte> batch = make_.batch(1);
  receiver_.on_untagged(batch);
  EXPECT_EQ(receiver_.next(), nullptr);  // its body is missing
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->sequence, 1u);
  EXPECT_EQ(item->message_kind, ipc::MessageKind::kRecordBatch);
  EXPECT_EQ(item->message->kind(), ipc::MessageKind::kRecordBatch);
  EXPECT_EQ(to_vector(item->metadata), to_vector(ByteSpan(batch).subspan(kPrefixSize)));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(item->metadata.data()) % 8, 0u);
  EXPECT_EQ(item->body_type, BodyType::kRemote);
  EXPECT_EQ(to_vector(item->body), make_.remote(1));

  receiver_.on_untagged(make_.end(2));
  EXPECT_FALSE(receiver_.finished());
  item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kEnd);
  EXPECT_EQ(item->sequence, 2u);
  EXPECT_EQ(item->message, nullptr);
  EXPECT_TRUE(receiver_.finished());
  EXPECT_EQ(receiver_.next(), nullptr);
}

TEST_F(ReceiverTest, ShowsTheMessageWhoseBodyIsMissing) {
  EXPECT_EQ(receiver_.due_message(), nullptr);
  begin(receiver_);
  EXPECT_EQ(receiver_.due_message(), nullptr) << "the schema was taken";
  receiver_.on_untagged(make_.batch(2));
  EXPECT_EQ(receiver_.next(), nullptr);
  EXPECT_EQ(receiver_.due_message(), nullptr) << "it is another one's";
  receiver_.on_untagged(make_.batch(1));
  EXPECT_EQ(receiver_.next(), nullptr);
  ASSERT_NE(receiver_.due_message(), nullptr);
  EXPECT_EQ(receiver_.due_message()->kind(), ipc::MessageKind::kRecordBatch);
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  expect_message(receiver_, 1);
  EXPECT_EQ(receiver_.due_message(), nullptr) << "it was taken";
}

TEST_F(ReceiverTest, TakesABodyBeforeItsMetadata) {
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  receiver_.on_untagged(make_.schema());
  expect_message(receiver_, 0);
  EXPECT_EQ(receiver_.next(), nullptr);
  receiver_.on_untagged(make_.batch(1));
  expect_message(receiver_, 1);
}

// A reader keeps what it has read from metadata that comes again.
TEST_F(ReceiverTest, SaysWhichMetadataIsThatOfTheMessageBefore) {
  begin(receiver_);
  const auto repeats = [&](std::uint32_t sequence, const std::vector<std::byte>& message) {
    receiver_.on_untagged(message);
    receiver_.on_tagged(make_.remote_tag(sequence), make_.remote(sequence));
    const Item* item = receiver_.next();
    if (item == nullptr) throw std::logic_error("the message isn't complete");
    EXPECT_EQ(item->sequence, sequence);
    EXPECT_EQ(to_vector(item->metadata), to_vector(ByteSpan(message).subspan(kPrefixSize)));
    EXPECT_EQ(item->message->body_length(), 64);
    return item->repeats;
  };
  EXPECT_FALSE(repeats(1, make_.batch(1)));
  EXPECT_TRUE(repeats(2, make_.batch(2)));
  EXPECT_TRUE(repeats(3, make_.batch(3)));
  EXPECT_FALSE(repeats(4, make_.batch(4, 2)));  // as long as the one before, and different
  EXPECT_FALSE(repeats(5, make_.batch(5, 3)));
  EXPECT_FALSE(repeats(6, make_.dictionary(6)));
  EXPECT_TRUE(repeats(7, make_.dictionary(7)));
  EXPECT_FALSE(repeats(8, make_.batch(8)));
}

TEST_F(ReceiverTest, MetadataThatComesEarlyIsReadInItsTurn) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(2, 2));
  receiver_.on_untagged(make_.batch(1));
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  receiver_.on_tagged(make_.remote_tag(2), make_.remote(2));
  receiver_.on_tagged(make_.remote_tag(3), make_.remote(3));
  expect_message(receiver_, 1);
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_FALSE(item->repeats);
  EXPECT_EQ(to_vector(item->metadata), to_vector(ByteSpan(make_.batch(2, 2)).subspan(kPrefixSize)));
  receiver_.on_untagged(make_.batch(3, 2));
  item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_TRUE(item->repeats);
}

TEST_F(ReceiverTest, DictionaryBatchesHaveBodiesToo) {
  begin(receiver_);
  receiver_.on_untagged(make_.dictionary(1));
  EXPECT_EQ(receiver_.next(), nullptr);
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->message_kind, ipc::MessageKind::kDictionaryBatch);
  EXPECT_EQ(item->message->dictionary_id(), 7);
}

// Decided: an empty body is one tagged message of 0 bytes, and is waited for.
TEST_F(ReceiverTest, WaitsForABodyOfNoBytes) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(1, 0));
  EXPECT_EQ(receiver_.next(), nullptr);
  receiver_.on_tagged(make_.packed_tag(1), {});
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->body_type, BodyType::kPacked);
  EXPECT_TRUE(item->body.empty());
}

TEST_F(ReceiverTest, CopiesWhatItIsGiven) {
  begin(receiver_);
  std::vector<std::byte> message = make_.batch(1);
  std::vector<std::byte> body = make_.remote(1);
  receiver_.on_untagged(message);
  receiver_.on_tagged(make_.remote_tag(1), body);
  std::fill(message.begin(), message.end(), std::byte{0xAA});
  std::fill(body.begin(), body.end(), std::byte{0xAA});
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(to_vector(item->body), make_.remote(1));
}

// Decided: End of Stream has the next number and may overtake what comes below it.
TEST_F(ReceiverTest, EndOfStreamWaitsForMissingNumbers) {
  receiver_.on_untagged(make_.end(3));
  receiver_.on_tagged(make_.remote_tag(2), make_.remote(2));
  receiver_.on_untagged(make_.batch(1));
  receiver_.on_untagged(make_.schema());
  expect_message(receiver_, 0);
  EXPECT_EQ(receiver_.next(), nullptr);
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  expect_message(receiver_, 1);
  EXPECT_EQ(receiver_.next(), nullptr);
  EXPECT_FALSE(receiver_.finished());
  receiver_.on_untagged(make_.batch(2));
  expect_message(receiver_, 2);
  EXPECT_EQ(receiver_.next()->kind, Item::Kind::kEnd);
}

// Type 255.

TEST_F(ReceiverTest, AnErrorComesAfterWhatIsCompleteBeforeIt) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(1));
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  receiver_.on_untagged(make_.error(2, "disk on fire: \xE2\x82\xAC"));
  expect_message(receiver_, 1);
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kError);
  EXPECT_EQ(item->sequence, 2u);
  EXPECT_EQ(as_text(item->metadata), "disk on fire: \xE2\x82\xAC");
  EXPECT_TRUE(receiver_.finished());
  EXPECT_EQ(receiver_.next(), nullptr);
}

TEST_F(ReceiverTest, AnErrorDoesNotWaitForWhatIsMissing) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(1));
  receiver_.on_tagged(make_.remote_tag(2), make_.remote(2));
  receiver_.on_untagged(make_.error(3, "no"));
  EXPECT_EQ(receiver_.next()->kind, Item::Kind::kError);
}

TEST_F(ReceiverTest, AStreamMayBeNothingButAnError) {
  receiver_.on_untagged(make_.error(0, ""));
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kError);
  EXPECT_TRUE(item->metadata.empty());
}

// Decided: a connection lost before End of Stream is an error, never a shorter table.

TEST_F(ReceiverTest, ALostConnectionNamesTheMissingMessage) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(1));
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  receiver_.on_disconnected();
  expect_message(receiver_, 1);  // what is complete can still be taken
  EXPECT_ERROR(receiver_.next(), TruncatedStreamError, "message 2 never arrived");
  EXPECT_ERROR(receiver_.next(), TruncatedStreamError, "message 2 never arrived");
  EXPECT_FALSE(receiver_.finished());
}

TEST_F(ReceiverTest, ALostConnectionNamesTheMissingBody) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(1));
  receiver_.on_untagged(make_.batch(2));
  receiver_.on_untagged(make_.end(3));
  receiver_.on_disconnected();
  EXPECT_ERROR(receiver_.next(), TruncatedStreamError,
               "the body of message 1 is missing; later messages arrived, up to number 2; End of Stream has number 3");
}

TEST_F(ReceiverTest, ALostConnectionNamesTheMissingMetadata) {
  begin(receiver_);
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  receiver_.on_disconnected();
  EXPECT_ERROR(receiver_.next(), TruncatedStreamError, "the metadata of message 1 is missing");
}

TEST_F(ReceiverTest, ALostConnectionSaysWhereAGapIs) {
  begin(receiver_);
  receiver_.on_untagged(make_.end(2));
  receiver_.on_disconnected();
  EXPECT_ERROR(receiver_.next(), TruncatedStreamError, "all of message 1 is missing; End of Stream has number 2");
}

TEST_F(ReceiverTest, ALostConnectionSaysWhy) {
  begin(receiver_);
  receiver_.on_disconnected("nobody answers at tcp://there");
  EXPECT_ERROR(receiver_.next(), TruncatedStreamError, "message 1 never arrived; nobody answers at tcp://there");
}

TEST_F(ReceiverTest, ALostConnectionBeforeTheSchemaIsTruncatedToo) {
  receiver_.on_disconnected();
  EXPECT_ERROR(receiver_.next(), TruncatedStreamError, "message 0 never arrived");
}

TEST_F(ReceiverTest, ADisconnectionAfterTheEndIsNoError) {
  begin(receiver_);
  receiver_.on_untagged(make_.end(1));
  receiver_.on_disconnected();
  EXPECT_EQ(receiver_.next()->kind, Item::Kind::kEnd);
  EXPECT_EQ(receiver_.next(), nullptr);
}

TEST_F(ReceiverTest, ADisconnectionAfterAnErrorStillTellsTheError) {
  receiver_.on_untagged(make_.error(0, "no"));
  receiver_.on_disconnected();
  EXPECT_EQ(receiver_.next()->kind, Item::Kind::kError);
}

// What breaks the protocol.

TEST_F(ReceiverTest, RefusesAStreamWithoutASchemaFirst) {
  receiver_.on_untagged(make_.batch(0));
  EXPECT_ERROR(receiver_.next(), ProtocolError, "message 0 isn't a schema");
  EXPECT_ERROR(receiver_.next(), ProtocolError, "message 0 isn't a schema");
}

TEST_F(ReceiverTest, RefusesASecondSchema) {
  begin(receiver_);
  receiver_.on_untagged(make_.schema(1));
  EXPECT_ERROR(receiver_.next(), ProtocolError, "message 1 is a second schema");
}

TEST_F(ReceiverTest, RefusesAStreamThatEndsBeforeItsSchema) {
  EXPECT_ERROR(receiver_.on_untagged(make_.end(0)), ProtocolError, "must begin with its schema");
}

TEST_F(ReceiverTest, RefusesABodyForTheSchema) {
  EXPECT_ERROR(receiver_.on_tagged(make_.packed_tag(0), {}), ProtocolError, "number 0 is the schema");
}

TEST_F(ReceiverTest, RefusesABodyForEndOfStream) {
  begin(receiver_);
  receiver_.on_untagged(make_.end(1));
  EXPECT_ERROR(receiver_.on_tagged(make_.packed_tag(1), {}), ProtocolError,
               "a body of number 1 arrived for a stream that ended with number 1");
}

TEST_F(ReceiverTest, RefusesAnEndThatABodyWasSentFor) {
  begin(receiver_);
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  EXPECT_ERROR(receiver_.on_untagged(make_.end(1)), ProtocolError,
               "End of Stream has number 1, but number 1 arrived, too");
}

TEST_F(ReceiverTest, RefusesWhatLiesPastTheEnd) {
  begin(receiver_);
  receiver_.on_untagged(make_.end(2));
  EXPECT_ERROR(receiver_.on_untagged(make_.batch(2)), ProtocolError, "ended with number 2");
  EXPECT_ERROR(receiver_.on_untagged(make_.batch(3)), ProtocolError, "ended with number 2");
  EXPECT_ERROR(receiver_.on_untagged(make_.end(2)), ProtocolError, "ended with number 2");
  EXPECT_ERROR(receiver_.on_untagged(make_.error(3, "x")), ProtocolError, "ended with number 2");
}

TEST_F(ReceiverTest, RefusesAnythingAfterTheEndWasTaken) {
  begin(receiver_);
  receiver_.on_untagged(make_.end(1));
  receiver_.next();
  EXPECT_ERROR(receiver_.on_untagged(make_.batch(2)), ProtocolError, "after the stream's end");
  EXPECT_ERROR(receiver_.on_tagged(make_.packed_tag(2), {}), ProtocolError, "after the stream's end");
  EXPECT_ERROR(receiver_.on_untagged(make_.end(1)), ProtocolError, "after the stream's end");
}

TEST_F(ReceiverTest, RefusesWhatComesTwice) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(1));
  EXPECT_ERROR(receiver_.on_untagged(make_.batch(1)), ProtocolError, "metadata of number 1 arrived twice");
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  EXPECT_ERROR(receiver_.on_tagged(make_.packed_tag(1), {}), ProtocolError, "a body of number 1 arrived twice");
}

TEST_F(ReceiverTest, RefusesWhatWasTakenAlready) {
  begin(receiver_);
  EXPECT_ERROR(receiver_.on_untagged(make_.schema()), ProtocolError, "number 0 arrived where number 1 is due next");
  EXPECT_ERROR(receiver_.on_tagged(make_.packed_tag(0), {}), ProtocolError,
               "number 0 arrived where number 1 is due next");
}

TEST_F(ReceiverTest, BoundsHowFarANumberMayBeAhead) {
  Receiver::Options options;
  options.max_ahead = 100;
  Receiver receiver(options);
  begin(receiver);
  receiver.on_tagged(make_.remote_tag(100), make_.remote(100));
  EXPECT_ERROR(receiver.on_tagged(make_.remote_tag(101), make_.remote(101)), ProtocolError, "more than 100 ahead");
  EXPECT_ERROR(receiver.on_untagged(make_.batch(0x80000001)), ProtocolError, "more than 100 ahead");
  EXPECT_ERROR(receiver.on_untagged(make_.end(0x7FFFFFFF)), ProtocolError, "more than 100 ahead");
}

TEST_F(ReceiverTest, RefusesARangeThatCannotTellBeforeFromAfter) {
  Receiver::Options options;
  options.max_ahead = 0;
  EXPECT_ERROR(Receiver{options}, InvalidArgumentError, "max_ahead is 0");
  options.max_ahead = (1u << 31) + 1;
  EXPECT_ERROR(Receiver{options}, InvalidArgumentError, "max_ahead is 2147483649");
}

TEST_F(ReceiverTest, BoundsWhatWaits) {
  Receiver::Options options;
  options.max_buffered_bytes = 1000;
  Receiver receiver(options);
  begin(receiver);
  const std::vector<std::byte> body(400);
  receiver.on_tagged(make_.packed_tag(2), body);
  receiver.on_tagged(make_.packed_tag(3), body);
  EXPECT_ERROR(receiver.on_tagged(make_.packed_tag(4), body), ProtocolError, "800 bytes already wait for number 1");
}

TEST_F(ReceiverTest, WhatWasTakenNoLongerCountsAsWaiting) {
  Receiver::Options options;
  options.max_buffered_bytes = 1000;
  Receiver receiver(options);
  begin(receiver);
  for (std::uint32_t number = 1; number < 100; ++number) {
    receiver.on_untagged(make_.batch(number));
    receiver.on_tagged(make_.remote_tag(number), make_.remote(number));
    expect_message(receiver, number);
  }
}

TEST_F(ReceiverTest, ABodyWithAnOwnerCountsOnlyWhereItHasToWait) {
  Receiver::Options options;
  options.max_buffered_bytes = 1000;
  Receiver receiver(options);
  begin(receiver);
  const auto body = std::make_shared<const std::vector<std::byte>>(make_.remote(1).size() + 4000);
  EXPECT_ERROR(receiver.on_tagged(make_.packed_tag(2), *body, body), ProtocolError, "more than the limit of 1000");
  receiver.on_tagged(make_.remote_tag(1), *body, body);
  receiver.on_untagged(make_.batch(1));
  expect_message(receiver, 1);
  // And is not counted away when it is taken.
  const std::vector<std::byte> other(400);
  receiver.on_tagged(make_.packed_tag(3), other);
  receiver.on_tagged(make_.packed_tag(4), other);
  EXPECT_ERROR(receiver.on_tagged(make_.packed_tag(5), other), ProtocolError, "800 bytes already wait for number 2");
}

TEST_F(ReceiverTest, ABodyWithAnOwnerIsHeldUntilTheNextCall) {
  begin(receiver_);
  auto body = std::make_shared<const std::vector<std::byte>>(make_.remote(1));
  const std::weak_ptr<const void> held = body;
  const ByteSpan bytes = *body;
  receiver_.on_tagged(make_.remote_tag(1), bytes, std::move(body));
  receiver_.on_untagged(make_.batch(1));
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->body_owner, held.lock());
  EXPECT_EQ(to_vector(item->body), make_.remote(1));
  EXPECT_EQ(receiver_.next(), nullptr);
  EXPECT_TRUE(held.expired());
}

TEST_F(ReceiverTest, BoundsMetadata) {
  Receiver::Options options;
  options.limits.max_metadata_bytes = 1000;
  Receiver receiver(options);
  EXPECT_ERROR(receiver.on_untagged(make_.metadata(0, std::vector<std::byte>(1001))), InvalidDataError, "1001 bytes");
}

TEST_F(ReceiverTest, NamesTheMessageWhoseMetadataIsGarbage) {
  begin(receiver_);
  receiver_.on_untagged(make_.metadata(1, std::vector<std::byte>(64, std::byte{0xFF})));
  EXPECT_ERROR(receiver_.next(), InvalidDataError, "message 1");
  Receiver other;
  other.on_untagged(make_.metadata(0, {}));
  EXPECT_ERROR(other.next(), InvalidDataError, "message 0");
}

TEST_F(ReceiverTest, RefusesAPackedBodyOfAnotherSizeThanTheMetadataSays) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(1));
  receiver_.on_tagged(make_.packed_tag(1), std::vector<std::byte>(23));
  EXPECT_ERROR(receiver_.next(), ProtocolError, "the packed body of message 1 has 23 bytes");
}

TEST_F(ReceiverTest, RefusesBadPrefixesAndTags) {
  EXPECT_ERROR(receiver_.on_untagged(bytes({1, 0, 0})), ProtocolError, "3 bytes");
  EXPECT_ERROR(receiver_.on_untagged(bytes({9, 0, 0, 0, 0})), ProtocolError, "type 9");
  EXPECT_ERROR(receiver_.on_tagged(1ull << 40, {}), ProtocolError, "reserved bits");
  EXPECT_ERROR(receiver_.on_tagged(2ull << 56, {}), ProtocolError, "body type 2");
}

// Decided: 4294967295 is followed by 0.

TEST_F(ReceiverTest, RollsOver) {
  begin(receiver_);
  receiver_.set_next_sequence(0xFFFFFFFE);
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));  // from beyond the roll-over, first
  receiver_.on_untagged(make_.end(2));
  receiver_.on_untagged(make_.batch(0));
  receiver_.on_tagged(make_.remote_tag(0), make_.remote(0));
  receiver_.on_untagged(make_.batch(0xFFFFFFFF));
  receiver_.on_tagged(make_.remote_tag(0xFFFFFFFF), make_.remote(0xFFFFFFFF));
  receiver_.on_untagged(make_.batch(1));
  EXPECT_EQ(receiver_.next(), nullptr);
  EXPECT_ERROR(receiver_.on_untagged(make_.batch(0xFFFFFFFD)), ProtocolError, "4294967294 is due next");
  EXPECT_ERROR(receiver_.on_untagged(make_.batch(2)), ProtocolError, "ended with number 2");
  receiver_.on_untagged(make_.batch(0xFFFFFFFE));
  receiver_.on_tagged(make_.remote_tag(0xFFFFFFFE), make_.remote(0xFFFFFFFE));
  for (const std::uint32_t number : {0xFFFFFFFEu, 0xFFFFFFFFu, 0u, 1u}) expect_message(receiver_, number);
  EXPECT_EQ(receiver_.next()->kind, Item::Kind::kEnd);
}

TEST_F(ReceiverTest, KnowsTheEndAtNumberZeroAfterARollOver) {
  receiver_.set_next_sequence(0xFFFFFFFF);
  receiver_.on_untagged(make_.end(0));
  EXPECT_EQ(receiver_.next(), nullptr);
  receiver_.on_untagged(make_.batch(0xFFFFFFFF));
  receiver_.on_tagged(make_.remote_tag(0xFFFFFFFF), make_.remote(0xFFFFFFFF));
  expect_message(receiver_, 0xFFFFFFFF);
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kEnd);
  EXPECT_EQ(item->sequence, 0u);
}

// Two connections: each server ends its half by itself.

TEST_F(ReceiverTest, AnErrorMayComeOverTheConnectionThatIsBehind) {
  begin(receiver_);
  for (const std::uint32_t number : {1u, 2u, 3u}) receiver_.on_untagged(make_.batch(number));
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  receiver_.on_untagged(make_.error(2, "the disk"));
  receiver_.on_untagged(make_.batch(4));  // sent before its server could know
  expect_message(receiver_, 1);
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kError);
  EXPECT_EQ(as_text(item->metadata), "the disk");
}

TEST_F(ReceiverTest, TheFirstOfTwoErrorsStands) {
  begin(receiver_);
  receiver_.on_untagged(make_.batch(1));
  receiver_.on_untagged(make_.error(3, "first"));
  receiver_.on_untagged(make_.error(2, "second"));
  receiver_.on_tagged(make_.remote_tag(3), make_.remote(3));
  receiver_.on_tagged(make_.remote_tag(1), make_.remote(1));
  expect_message(receiver_, 1);
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(as_text(item->metadata), "first");
}

TEST_F(ReceiverTest, AnErrorOfTheBodiesStandsBesideAnEndOfTheMetadata) {
  for (const bool end_first : {true, false}) {
    Receiver receiver;
    begin(receiver);
    for (const std::uint32_t number : {1u, 2u}) receiver.on_untagged(make_.batch(number));
    if (end_first) receiver.on_untagged(make_.end(3));
    receiver.on_untagged(make_.error(2, "the disk"));
    if (!end_first) receiver.on_untagged(make_.end(3));
    receiver.on_tagged(make_.remote_tag(1), make_.remote(1));
    expect_message(receiver, 1);
    const Item* item = receiver.next();
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->kind, Item::Kind::kError);
  }
}

// A name that the server of the bodies doesn't know, for example.
TEST_F(ReceiverTest, AnErrorBeforeTheSchemaMayComeAfterIt) {
  begin(receiver_);
  receiver_.on_untagged(make_.error(0, "not here"));
  const Item* item = receiver_.next();
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->kind, Item::Kind::kError);
  EXPECT_ERROR(receiver_.on_untagged(make_.error(0, "not here")), ProtocolError, "after the stream's end");

  Receiver later;
  begin(later);
  later.on_untagged(make_.batch(1));
  later.on_tagged(make_.remote_tag(1), make_.remote(1));
  expect_message(later, 1);
  EXPECT_ERROR(later.on_untagged(make_.error(0, "x")), ProtocolError, "number 0 arrived where number 2 is due next");
}

TEST_F(ReceiverTest, AnEndBeforeAnErrorsNumberIsStillWrong) {
  begin(receiver_);
  receiver_.on_untagged(make_.error(3, "x"));
  EXPECT_ERROR(receiver_.on_untagged(make_.end(2)), ProtocolError, "ended with number 3");
}

}  // namespace
}  // namespace crossdock::dissociated
