#include "dissociated/sender.h"

#include <stdexcept>

#include "crossdock/core/error.h"
#include "support.h"
#include "support/freed.h"

namespace crossdock::dissociated {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kWant = 100;
constexpr std::uint64_t kFree = 200;

class SenderTest : public ::testing::Test {
 protected:
  void want(Sender& sender) {
    ASSERT_EQ(sender.on_tagged(kWant, bytes_of("ticket"), &freed_), Sender::Action::kWantData);
  }
  Sender::Action free(Sender& sender, std::initializer_list<std::uint64_t> addresses) {
    return sender.on_tagged(kFree, std::as_bytes(std::span(addresses.begin(), addresses.size())), &freed_);
  }
  void lend(Sender& sender, std::initializer_list<RemoteBuffer> buffers, std::uint64_t holder) {
    sender.leases().lend({buffers.begin(), buffers.size()}, holder);
  }

  Sender sender_{kWant, kFree, {true, true, true}};
  std::vector<Freed> freed_;
};

TEST_F(SenderTest, FreesALongMessageInBoundedSlices) {
  constexpr std::size_t kLeases = 3 * Sender::kStepsPerCall;
  std::vector<std::uint64_t> addresses;
  want(sender_);
  sender_.next_message();
  for (std::uint64_t i = 1; i <= kLeases; ++i) {
    lend(sender_, {{64 * i, 8}}, i);
    addresses.push_back(64 * i);
    addresses.push_back(0);
  }
  EXPECT_EQ(sender_.on_tagged(kFree, std::as_bytes(std::span(addresses)), &freed_), Sender::Action::kFreed);
  std::size_t slices = 1;
  for (std::size_t before = 0; sender_.freeing(); ++slices) {
    EXPECT_LE(holders(freed_).size() - before, Sender::kStepsPerCall);
    EXPECT_THROW(sender_.on_tagged(kWant, {}, &freed_), std::logic_error);
    before = holders(freed_).size();
    sender_.free_more(&freed_);
  }
  EXPECT_EQ(slices, 2 * kLeases / Sender::kStepsPerCall);
  ASSERT_EQ(holders(freed_).size(), kLeases);
  for (std::size_t i = 0; i < kLeases; ++i) EXPECT_EQ(freed_[i].holder, i + 1);
  EXPECT_EQ(sender_.leases().outstanding(), 0u);
}

TEST_F(SenderTest, RefusesWhatIsWrongInALaterSlice) {
  want(sender_);
  std::vector<std::uint64_t> addresses(Sender::kStepsPerCall, 0);
  addresses.push_back(64);
  sender_.on_tagged(kFree, std::as_bytes(std::span(addresses)), &freed_);
  ASSERT_TRUE(sender_.freeing());
  EXPECT_ERROR(sender_.free_more(&freed_), ProtocolError, "address 64");
  EXPECT_FALSE(sender_.freeing());
}

// "Server Sequence": numbers from 0, a tag with the same number for each body, End of Stream with the next number.
TEST_F(SenderTest, NumbersAStreamFromZero) {
  EXPECT_FALSE(sender_.streaming());
  want(sender_);
  EXPECT_TRUE(sender_.streaming());
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({1, 0, 0, 0, 0}));
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({1, 1, 0, 0, 0}));
  EXPECT_EQ(sender_.body_tag(BodyType::kRemote), 0x0100000000000001u);
  EXPECT_EQ(sender_.body_tag(BodyType::kPacked), 1u);
  EXPECT_EQ(to_vector(sender_.end_of_stream()), bytes({0, 2, 0, 0, 0}));
  EXPECT_FALSE(sender_.streaming());
}

TEST_F(SenderTest, TakesTheNextStreamWithLeasesStillOpen) {
  want(sender_);
  sender_.next_message();
  lend(sender_, {{64, 8}}, 5);
  sender_.end_of_stream();
  want(sender_);
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({1, 0, 0, 0, 0}));
  EXPECT_EQ(free(sender_, {64}), Sender::Action::kFreed);
  EXPECT_THAT(holders(freed_), ElementsAre(5));
  EXPECT_TRUE(sender_.streaming());
}

// Decided: 4294967295 is followed by 0, which is no schema then.
TEST_F(SenderTest, RollsOver) {
  want(sender_);
  sender_.set_next_sequence(0xFFFFFFFF);
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({1, 255, 255, 255, 255}));
  EXPECT_EQ(sender_.body_tag(BodyType::kRemote), 0x01000000FFFFFFFFu);
  EXPECT_EQ(to_vector(sender_.next_message()), bytes({1, 0, 0, 0, 0}));
  EXPECT_EQ(sender_.body_tag(BodyType::kPacked), 0u);
  EXPECT_EQ(to_vector(sender_.end_of_stream()), bytes({0, 1, 0, 0, 0}));
}

TEST_F(SenderTest, ReportsErrorsToAPeerThatKnowsThem) {
  want(sender_);
  sender_.next_message();
  EXPECT_EQ(sender_.error("no"), bytes({255, 1, 0, 0, 0, 'n', 'o'}));
  EXPECT_FALSE(sender_.streaming());
  want(sender_);  // the connection lives on
  EXPECT_EQ(sender_.error(""), bytes({255, 0, 0, 0, 0}));
}

TEST_F(SenderTest, SaysNothingToAPeerThatDoesNotKnowErrors) {
  Sender sender(kWant, kFree);
  want(sender);
  EXPECT_THAT(sender.error("no"), IsEmpty());
  EXPECT_FALSE(sender.streaming());
}

TEST_F(SenderTest, CutsAReasonBetweenCharacters) {
  want(sender_);
  const std::string reason = std::string(kMaxErrorReason - 1, 'x') + "\xE2\x82\xAC";
  const std::vector<std::byte> message = sender_.error(reason);
  EXPECT_EQ(message.size(), kPrefixSize + kMaxErrorReason - 1);
  EXPECT_EQ(read_prefix(message).type, MessageType::kError);
}

TEST_F(SenderTest, MakesAReasonUtf8) {
  want(sender_);
  EXPECT_EQ(sender_.error("a\xFF"), bytes({255, 0, 0, 0, 0, 'a', '?'}));
}

TEST_F(SenderTest, RefusesASecondWantDataWhileAStreamIsUnderWay) {
  want(sender_);
  EXPECT_ERROR(sender_.on_tagged(kWant, {}, &freed_), ProtocolError, "while a stream is under way");
}

TEST_F(SenderTest, RefusesUnknownTags) {
  EXPECT_ERROR(sender_.on_tagged(7, {}, &freed_), ProtocolError,
               "tag 7; the known tags are want_data (100) and free_data (200)");
  // All 64 bits count: a body's tag is no want_data.
  EXPECT_ERROR(sender_.on_tagged(kWant | (1ull << 56), {}, &freed_), ProtocolError, "known tags are");
}

TEST_F(SenderTest, RefusesFreesOfPartsOfAddresses) {
  for (const std::size_t size : {1, 7, 9, 12}) {
    EXPECT_ERROR(sender_.on_tagged(kFree, std::vector<std::byte>(size), &freed_), ProtocolError,
                 std::to_string(size) + " bytes");
  }
}

TEST_F(SenderTest, RefusesFreesOfWhatWasNeverSent) {
  EXPECT_ERROR(free(sender_, {64}), ProtocolError, "address 64");
  want(sender_);
  lend(sender_, {{64, 8}}, 5);
  EXPECT_ERROR(free(sender_, {64, 72}), ProtocolError, "address 72");
  EXPECT_THAT(holders(freed_), ElementsAre(5));
}

// "An arbitrary number of unsigned 64-bit integer values".
TEST_F(SenderTest, TakesAFreeOfNoAddress) {
  EXPECT_EQ(free(sender_, {}), Sender::Action::kFreed);
  EXPECT_THAT(freed_, IsEmpty());
}

TEST_F(SenderTest, ReadsAddressesAtAnyAlignment) {
  lend(sender_, {{0x0807060504030201, 8}}, 5);
  const std::vector<std::byte> body = bytes({0, 1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(sender_.on_tagged(kFree, ByteSpan(body).subspan(1), &freed_), Sender::Action::kFreed);
  EXPECT_THAT(holders(freed_), ElementsAre(5));
}

TEST_F(SenderTest, KnowsNoFreeDataWhereNoneIsOffered) {
  Sender sender(kWant, std::nullopt, {true, true, true});
  EXPECT_ERROR(sender.on_tagged(kFree, {}, &freed_), ProtocolError, "want_data (100) only");
  EXPECT_ERROR(sender.on_tagged(0, {}, &freed_), ProtocolError, "tag 0");
}

TEST_F(SenderTest, RefusesTwoTagsThatAreOne) { EXPECT_ERROR(Sender(5, 5), InvalidArgumentError, "both 5"); }

TEST_F(SenderTest, OurOwnClientsAreCounted) {
  want(sender_);
  lend(sender_, {{64, 8}, {64, 8}}, 5);
  sender_.end_of_stream();
  free(sender_, {64});
  EXPECT_EQ(sender_.leases().outstanding(), 1u);
  free(sender_, {64});
  EXPECT_EQ(sender_.leases().outstanding(), 0u);
}

TEST_F(SenderTest, OthersMayFreeEachAddressOnceAfterTheEnd) {
  Sender sender(kWant, kFree);
  want(sender);
  lend(sender, {{64, 8}, {64, 8}, {128, 8}}, 5);
  sender.end_of_stream();
  free(sender, {64, 128});
  EXPECT_EQ(sender.leases().outstanding(), 0u);
  EXPECT_THAT(holders(freed_), ElementsAre(5, 5, 5));
}

TEST_F(SenderTest, AnErrorEndsAStreamForOthersTooSoOneFreeIsEnough) {
  Sender sender(kWant, kFree);
  want(sender);
  lend(sender, {{64, 8}, {64, 8}}, 5);
  sender.error("no");
  free(sender, {64});
  EXPECT_EQ(sender.leases().outstanding(), 0u);
}

TEST_F(SenderTest, SaysSoWhereItsCallerForgotThatThereIsNoStream) {
  EXPECT_THROW(sender_.next_message(), std::logic_error);
  EXPECT_THROW(sender_.body_tag(BodyType::kPacked), std::logic_error);
  EXPECT_THROW(sender_.end_of_stream(), std::logic_error);
  EXPECT_THROW(sender_.error("x"), std::logic_error);
}

}  // namespace
}  // namespace crossdock::dissociated
