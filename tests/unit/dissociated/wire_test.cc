#include "dissociated/wire.h"

#include <limits>

#include "crossdock/core/error.h"
#include "support.h"

namespace crossdock::dissociated {
namespace {

// "Metadata Stream Sequence": byte 0 is the type, bytes 1 to 4 the little-endian sequence number.

TEST(Wire, MetadataPrefixIsTypeOneThenTheNumber) {
  EXPECT_EQ(to_vector(write_prefix(MessageType::kMetadata, 0x04030201)), bytes({1, 0x01, 0x02, 0x03, 0x04}));
}

TEST(Wire, EndOfStreamIsExactlyFiveBytesOfTypeZero) {
  EXPECT_EQ(to_vector(write_prefix(MessageType::kEndOfStream, 258)), bytes({0, 2, 1, 0, 0}));
}

TEST(Wire, ErrorPrefixIsOfType255) {
  EXPECT_EQ(to_vector(write_prefix(MessageType::kError, 0xFFFFFFFF)), bytes({255, 255, 255, 255, 255}));
}

TEST(Wire, ReadsAPrefixInFrontOfMetadata) {
  const Prefix prefix = read_prefix(bytes({1, 0, 0, 0, 0x80, 42, 43}));
  EXPECT_EQ(prefix.type, MessageType::kMetadata);
  EXPECT_EQ(prefix.sequence, 0x80000000u);
}

TEST(Wire, ReadsEndOfStream) {
  const Prefix prefix = read_prefix(bytes({0, 7, 0, 0, 0}));
  EXPECT_EQ(prefix.type, MessageType::kEndOfStream);
  EXPECT_EQ(prefix.sequence, 7u);
}

TEST(Wire, ReadsAnErrorMessage) {
  const Prefix prefix = read_prefix(bytes({255, 7, 0, 0, 0, 'n', 'o'}));
  EXPECT_EQ(prefix.type, MessageType::kError);
  EXPECT_EQ(prefix.sequence, 7u);
}

TEST(Wire, RefusesAPrefixThatIsTooShort) {
  EXPECT_ERROR(read_prefix(ByteSpan()), ProtocolError, "0 bytes");
  EXPECT_ERROR(read_prefix(bytes({1, 0, 0, 0})), ProtocolError, "4 bytes");
}

TEST(Wire, RefusesEveryUnknownMessageType) {
  for (int type = 2; type < 255; ++type) {
    EXPECT_ERROR(read_prefix(bytes({type, 9, 0, 0, 0})), ProtocolError,
                 "(number 9) is of type " + std::to_string(type));
  }
}

TEST(Wire, RefusesAnEndOfStreamWithMoreThanItsFiveBytes) {
  EXPECT_ERROR(read_prefix(bytes({0, 3, 0, 0, 0, 0})), ProtocolError, "(number 3) has 6 bytes");
}

TEST(Wire, RefusesAnErrorWhoseReasonIsNoText) {
  EXPECT_ERROR(read_prefix(bytes({255, 3, 0, 0, 0, 0xC3})), ProtocolError, "isn't UTF-8: '\\xc3'");
}

TEST(Wire, RefusesAnErrorReasonOverTheLimit) {
  std::vector<std::byte> message(kPrefixSize + kMaxErrorReason, std::byte{'x'});
  message[0] = std::byte{255};
  EXPECT_EQ(read_prefix(message).type, MessageType::kError);
  message.push_back(std::byte{'x'});
  EXPECT_ERROR(read_prefix(message), ProtocolError, "4097 bytes");
}

// "Data Stream Sequence": bits 0 to 31 the number, 32 to 55 reserved, 56 to 63 the type.

TEST(Wire, TagHasTheNumberLowAndTheTypeInItsTopByte) {
  static_assert(write_tag(0xFFFFFFFF, BodyType::kPacked) == 0x00000000FFFFFFFFull);
  static_assert(write_tag(5, BodyType::kRemote) == 0x0100000000000005ull);
  const Tag tag = read_tag(0x01000000FFFFFFFEull);
  EXPECT_EQ(tag.sequence, 0xFFFFFFFEu);
  EXPECT_EQ(tag.type, BodyType::kRemote);
  EXPECT_EQ(read_tag(0).type, BodyType::kPacked);
}

TEST(Wire, RefusesEveryReservedTagBit) {
  for (int bit = 32; bit < 56; ++bit) {
    EXPECT_ERROR(read_tag(6 | (std::uint64_t{1} << bit)), ProtocolError, "of body 6 has reserved bits");
  }
}

TEST(Wire, RefusesEveryUnknownBodyType) {
  for (std::uint64_t type = 2; type < 256; ++type) {
    EXPECT_ERROR(read_tag(6 | (type << 56)), ProtocolError, "says body type " + std::to_string(type));
  }
}

// Type 1 bodies: total, count, then a pair for each buffer.

TEST(Wire, RemoteBodyIsTotalCountAndPairs) {
  std::vector<std::byte> body = bytes({0xEE});  // replaced
  const RemoteBuffer buffers[] = {{0x1122334455667788, 0x10}, {0, 0}, {0x40, 3}};
  write_remote_body(buffers, &body);
  EXPECT_EQ(body, bytes({0x13, 0,    0,    0,    0,    0,    0,    0,                             // total
                         3,    0,    0,    0,    0,    0,    0,    0,                             // count
                         0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,                          // address
                         0x10, 0,    0,    0,    0,    0,    0,    0,                             // length
                         0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0,  // absent
                         0x40, 0,    0,    0,    0,    0,    0,    0,                             //
                         3,    0,    0,    0,    0,    0,    0,    0}));
  body.insert(body.begin(), std::byte{0xEE});
  std::vector<RemoteBuffer> read = {{9, 9}};
  read_remote_body(ByteSpan(body).subspan(1), &read);  // unaligned
  EXPECT_THAT(read, ::testing::ElementsAreArray(buffers));
}

TEST(Wire, RemoteBodyOfNoBuffersIsSixteenZeroBytes) {
  std::vector<std::byte> body;
  write_remote_body({}, &body);
  EXPECT_EQ(body, std::vector<std::byte>(16));
  std::vector<RemoteBuffer> read = {{9, 9}};
  read_remote_body(body, &read);
  EXPECT_TRUE(read.empty());
}

std::vector<std::byte> words(std::initializer_list<std::uint64_t> values) {
  std::vector<std::byte> out(values.size() * 8);
  std::byte* to = out.data();
  for (const std::uint64_t value : values) {
    store_le(to, value);
    to += 8;
  }
  return out;
}

class RemoteBody : public ::testing::Test {
 protected:
  std::vector<RemoteBuffer> out_;
};

TEST_F(RemoteBody, RefusesSizesThatHoldNoWholePairs) {
  for (const std::size_t size : {0, 1, 8, 15, 17, 24, 31, 33}) {
    EXPECT_ERROR(read_remote_body(std::vector<std::byte>(size), &out_), ProtocolError, std::to_string(size) + " bytes");
  }
}

TEST_F(RemoteBody, RefusesACountThatDoesNotFitTheSize) {
  EXPECT_ERROR(read_remote_body(words({0, 1}), &out_), ProtocolError, "1 buffers");
  EXPECT_ERROR(read_remote_body(words({5, 0, 64, 5}), &out_), ProtocolError, "hold 1");
  // A count whose product with 16 wraps around to the right size.
  EXPECT_ERROR(read_remote_body(words({5, (1ull << 60) + 1, 64, 5}), &out_), ProtocolError, "1152921504606846977");
}

TEST_F(RemoteBody, RefusesATotalThatIsNotTheSum) {
  EXPECT_ERROR(read_remote_body(words({8, 1, 64, 5}), &out_), ProtocolError,
               "8 bytes in total; their lengths add up to 5");
}

TEST_F(RemoteBody, RefusesLengthsThatOverflow) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_ERROR(read_remote_body(words({0, 2, 64, kMost, 128, 1}), &out_), ProtocolError, "at buffer 1");
  read_remote_body(words({kMost, 1, 64, kMost}), &out_);
  EXPECT_THAT(out_, ::testing::ElementsAre(RemoteBuffer{64, kMost}));
}

TEST_F(RemoteBody, RefusesAnAddressWithoutALength) {
  EXPECT_ERROR(read_remote_body(words({5, 2, 64, 5, 128, 0}), &out_), ProtocolError, "buffer 1 of a body");
}

TEST_F(RemoteBody, TakesAddressZeroWithALengthForElsewhereAnAddressIsOpaque) {
  read_remote_body(words({5, 1, 0, 5}), &out_);
  EXPECT_THAT(out_, ::testing::ElementsAre(RemoteBuffer{0, 5}));
}

}  // namespace
}  // namespace crossdock::dissociated
