#include "flight/ticket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "flight/status.h"

namespace crossdock::flight {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Purpose = TicketKeys::Purpose;

constexpr std::int64_t kNow = 1'700'000'000;

class Tickets : public ::testing::Test {
 protected:
  TicketKeys keys_with(std::vector<std::string> keys, std::int64_t ahead = 0) {
    return TicketKeys(keys, [this, ahead] { return now_ + ahead; });
  }
  static void refuses(const TicketKeys& keys, std::string_view ticket, const char* why,
                      Purpose purpose = Purpose::kRead) {
    EXPECT_THAT([&] { keys.check(purpose, ticket); }, ThrowsMessage<UnauthenticatedError>(HasSubstr(why)));
  }

  std::int64_t now_ = kNow;
  const std::string first_ = std::string(16, 'a');
  const std::string second_ = std::string(32, 'b');
};

TEST_F(Tickets, SayWhatTheirHolderMayDo) {
  const TicketKeys keys = keys_with({});
  for (const std::string& name :
       {std::string("weather"), std::string(), std::string("\xff\0x", 3), std::string(TicketKeys::kMostSubject, 'n')}) {
    const std::string ticket = keys.sign(Purpose::kRead, name, 10);
    EXPECT_TRUE(TicketKeys::looks_signed(ticket));
    EXPECT_EQ(keys.check(Purpose::kRead, ticket), name);
    EXPECT_EQ(keys.check(Purpose::kRead, ticket), name) << "as often as its holder likes";
    refuses(keys, ticket, "is for another purpose", Purpose::kLogin);
  }
  EXPECT_THROW(keys.sign(Purpose::kRead, std::string(TicketKeys::kMostSubject + 1, 'n'), 10), InvalidArgumentError);
}

TEST_F(Tickets, HaveThisForm) {
  const std::string ticket = keys_with({first_}).sign(Purpose::kRead, "ab", 60);
  const auto* const bytes = reinterpret_cast<const std::byte*>(ticket.data());
  ASSERT_EQ(ticket.size(), 24U + 2 + 32);
  EXPECT_EQ(ticket.substr(0, 8), std::string("XDT\x01\x01\0\0\0", 8));
  EXPECT_EQ(load_le<std::int64_t>(bytes + 16), kNow + 60);
  EXPECT_EQ(ticket.substr(24, 2), "ab");
  const std::array<ByteSpan, 2> parts = {as_bytes(std::string_view("crossdock ticket 1")),
                                         as_bytes(std::string_view(ticket).substr(0, 26))};
  EXPECT_EQ(ticket.substr(26), as_text(hmac_sha256(first_, parts)));
  const std::array<ByteSpan, 1> naming = {as_bytes(std::string_view("crossdock ticket key"))};
  EXPECT_EQ(ticket.substr(8, 8), as_text(hmac_sha256(first_, naming)).substr(0, 8));
}

TEST_F(Tickets, AreRefusedWhenAnyBitOrTheLengthChanges) {
  const TicketKeys keys = keys_with({first_});
  const std::string ticket = keys.sign(Purpose::kRead, "weather", 10);
  for (std::size_t size = 0; size < ticket.size(); ++size) {
    EXPECT_THROW(keys.check(Purpose::kRead, ticket.substr(0, size)), UnauthenticatedError) << size;
  }
  EXPECT_THROW(keys.check(Purpose::kRead, ticket + "x"), UnauthenticatedError);
  for (std::size_t bit = 0; bit < ticket.size() * 8; ++bit) {
    std::string changed = ticket;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW(keys.check(Purpose::kRead, changed), UnauthenticatedError) << bit;
  }
  refuses(keys, "weather", "isn't a signed one");
  refuses(keys, std::string("XDT\x01") + std::string(100, 'x'), "by another server");
  refuses(keys, ticket.substr(0, ticket.size() - 1) + "!", "was changed");
}

TEST_F(Tickets, Expire) {
  const TicketKeys keys = keys_with({first_});
  const std::string ticket = keys.sign(Purpose::kRead, "weather", 300);
  now_ = kNow + 300 + TicketKeys::kClockTolerance;
  EXPECT_EQ(keys.check(Purpose::kRead, ticket), "weather");
  ++now_;
  refuses(keys, ticket, "has expired 61 s ago");
}

TEST_F(Tickets, AreTakenByServersThatShareAKeyAndWhoseClocksDiffer) {
  const TicketKeys late = keys_with({first_}, -60);
  const TicketKeys early = keys_with({second_, first_}, 60);
  EXPECT_EQ(early.check(Purpose::kRead, late.sign(Purpose::kRead, "weather", 100)), "weather");
  refuses(late, early.sign(Purpose::kRead, "weather", 100), "was signed by another server");
  refuses(keys_with({}), late.sign(Purpose::kRead, "weather", 100), "was signed by another server");
}

TEST_F(Tickets, KeysAreRotated) {
  TicketKeys keys = keys_with({first_});
  const std::string old = keys.sign(Purpose::kRead, "weather", 100);
  keys.replace({second_, first_});
  EXPECT_EQ(keys.check(Purpose::kRead, old), "weather");
  const std::string next = keys.sign(Purpose::kRead, "weather", 100);
  keys.replace({second_});
  refuses(keys, old, "a key that is no longer valid");
  EXPECT_EQ(keys.check(Purpose::kRead, next), "weather");

  keys.replace({});  // a random one
  EXPECT_EQ(keys.check(Purpose::kRead, next), "weather");
  const std::string random = keys.sign(Purpose::kRead, "weather", 100);
  keys.replace({});
  refuses(keys, next, "no longer valid");
  EXPECT_EQ(keys.check(Purpose::kRead, random), "weather");

  EXPECT_THROW(keys.replace({second_, "short"}), InvalidArgumentError);
  EXPECT_THROW(keys.replace(std::vector<std::string>(17, first_)), InvalidArgumentError);
  EXPECT_EQ(keys.check(Purpose::kRead, random), "weather") << "nothing has changed";
  EXPECT_THROW(TicketKeys({std::string(15, 'k')}), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::flight
