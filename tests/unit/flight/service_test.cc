#include "flight/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base64.h"
#include "crossdock/core/error.h"
#include "flight/status.h"
#include "samples.h"

namespace crossdock::flight {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

class TwoTables final : public Directory {
 public:
  std::vector<Flight> flights() const override { return {flight("known"), flight("live")}; }
  Flight flight(std::string_view name) const override {
    if (name == "known") return {"known", raw("schema"), 10, 80};
    if (name == "live") return {"live"};
    throw NotFoundError("nothing is published as " + std::string(name));
  }
};

Bytes path(std::vector<std::string> parts) {
  return encode(FlightDescriptor{.type = FlightDescriptor::Type::kPath, .path = std::move(parts)});
}

class FlightService : public ::testing::Test {
 protected:
  TwoTables tables_;
  /// Accepts ada with the password lace, and fails for eve.
  static bool is_ada(const std::string& user, const std::string& password) {
    if (user == "eve") throw ResourceError("the list of users can't be read");
    return user == "ada" && password == "lace";
  }

  std::int64_t now_ = 1'000'000;
  std::shared_ptr<TicketKeys> keys_ = std::make_shared<TicketKeys>(std::vector<std::string>{}, [this] { return now_; });
  Service service_{tables_, {"shm:/x?want_data=1", "tcp://h:1?want_data=2"}, {}};
  Service with_token_{tables_, {}, {.token = "secret", .keys = keys_}};
  Service with_login_{tables_, {}, {.login = is_ada, .keys = keys_}};
};

TEST_F(FlightService, KnowsItsMethods) {
  EXPECT_EQ(method_of("DoGet"), Method::kDoGet);
  EXPECT_EQ(method_of("ListActions"), Method::kListActions);
  EXPECT_EQ(method_of("doget"), Method::kUnknown);
  EXPECT_EQ(method_of(""), Method::kUnknown);
}

TEST_F(FlightService, TellsWhereATableIs) {
  const auto answers = service_.answer(Method::kGetFlightInfo, path({"known"}));
  ASSERT_THAT(answers, SizeIs(1));
  const FlightInfo info = decode_info(answers[0]);
  EXPECT_EQ(info.records, 10);
  EXPECT_EQ(info.bytes, 80);
  EXPECT_EQ(as_text(decapsulated(info.schema, "x").first(6)), "schema");
  ASSERT_THAT(info.endpoints, SizeIs(1));
  EXPECT_EQ(info.endpoints[0].ticket.ticket, raw("known"));
  EXPECT_THAT(info.endpoints[0].locations,
              ElementsAre("shm:/x?want_data=1", "tcp://h:1?want_data=2", kReuseConnection));
  EXPECT_EQ(info.descriptor->path, std::vector<std::string>{"known"});
}

TEST_F(FlightService, ListsWhatIsNotKnownAsUnknown) {
  const auto answers = service_.answer(Method::kListFlights, {});
  ASSERT_THAT(answers, SizeIs(2));
  const FlightInfo live = decode_info(answers[1]);
  EXPECT_THAT(live.schema, IsEmpty());
  EXPECT_EQ(live.records, -1);
  EXPECT_EQ(live.bytes, -1);
}

TEST_F(FlightService, PollsOnce) {
  const PollInfo polled = decode_poll_info(service_.answer(Method::kPollFlightInfo, path({"known"})).at(0));
  EXPECT_TRUE(polled.info);
  EXPECT_FALSE(polled.descriptor);
  EXPECT_EQ(polled.progress, 1.0);
}

TEST_F(FlightService, RefusesByName) {
  const auto refuses = [&](Method method, const Bytes& request, const char* what) {
    EXPECT_THAT([&] { service_.answer(method, request); }, ThrowsMessage<Error>(HasSubstr(what)));
  };
  refuses(Method::kGetFlightInfo, path({"no"}), "nothing is published as no");
  refuses(Method::kGetFlightInfo, path({}), "this path has 0");
  refuses(Method::kGetFlightInfo, path({"a", "b"}), "this path has 2");
  refuses(Method::kGetFlightInfo, encode(FlightDescriptor{.type = FlightDescriptor::Type::kCommand}), "no commands");
  refuses(Method::kGetSchema, path({"live"}), "isn't known before it is read");
  refuses(Method::kListFlights, encode(Criteria{raw("x")}), "leave the criteria out");
  refuses(Method::kDoAction, encode(Action{"CancelFlightInfo", {}}), "no action 'CancelFlightInfo'");
  refuses(Method::kUnknown, {}, "doesn't have this method");
  EXPECT_THAT(service_.answer(Method::kListActions, {}), IsEmpty());
}

TEST_F(FlightService, AsksForItsToken) {
  service_.check_caller("", "");
  with_token_.check_caller("Bearer secret", "");
  with_token_.check_caller("", "secret");
  for (const char* wrong :
       {"", "Bearer ", "Bearer secre", "Bearer secret2", "secret", "Basic secret", "bearer secret"}) {
    EXPECT_THROW(with_token_.check_caller(wrong, ""), UnauthenticatedError) << wrong;
    EXPECT_THROW(with_token_.check_caller("", std::string(wrong) + "x"), UnauthenticatedError) << wrong;
  }
}

TEST_F(FlightService, HandsOutSignedTicketsToThoseItAsks) {
  const FlightInfo info = decode_info(with_token_.answer(Method::kGetFlightInfo, path({"known"})).at(0));
  const std::string ticket(as_text(info.endpoints.at(0).ticket.ticket));
  const Access& access = with_token_.access();
  EXPECT_EQ(info.endpoints[0].expires->seconds, now_ + access.ticket_lifetime_s);
  EXPECT_EQ(access.name_in(ticket, false), "known");
  EXPECT_EQ(access.name_in(ticket, true), "known");
  EXPECT_EQ(access.name_in("known", true), "known");
  EXPECT_THAT([&] { access.name_in("known", false); },
              ThrowsMessage<UnauthenticatedError>(HasSubstr("'known' is a name: ask its Flight server for a ticket")));
  EXPECT_THROW(access.name_in("", false), UnauthenticatedError) << "the catalog";
  EXPECT_EQ(access.name_in("", true), "");
  now_ += access.ticket_lifetime_s + TicketKeys::kClockTolerance;
  EXPECT_EQ(access.name_in(ticket, false), "known");
  ++now_;
  EXPECT_THROW(access.name_in(ticket, true), UnauthenticatedError) << "it isn't taken for a name";
  EXPECT_EQ(service_.access().name_in(ticket, false), ticket) << "an open server's tickets are names";
}

namespace login {
std::string basic(std::string_view login) { return "Basic " + to_base64(as_bytes(login)); }
}  // namespace login

TEST_F(FlightService, AsksForALogin) {
  const auto [payload, header] = with_login_.log_in(login::basic("ada:lace"), {});
  EXPECT_THAT(payload, IsEmpty());
  with_login_.check_caller(header, "");
  with_login_.check_caller("", std::string_view(header).substr(7));
  EXPECT_THROW(with_token_.check_caller(header, ""), UnauthenticatedError) << "it has no logins";
  const Bytes answer = with_login_.log_in("", encode(Handshake{.payload = encode(BasicAuth{"ada", "lace"})})).payload;
  with_login_.check_caller("", as_text(decode_handshake(answer).payload));

  for (const char* wrong : {"ada:", "ada:lac", "ada:lace2", "bob:lace", ":", "ada:lace:"}) {
    EXPECT_THROW(with_login_.log_in(login::basic(wrong), {}), UnauthenticatedError) << wrong;
  }
  EXPECT_THROW(with_login_.log_in("", {}), UnauthenticatedError);
  EXPECT_THROW(with_login_.log_in(login::basic("eve:x"), {}), ResourceError);
  const std::string read = keys_->sign(TicketKeys::Purpose::kRead, "ada", 100);
  const std::string another = TicketKeys().sign(TicketKeys::Purpose::kLogin, "ada", 100);
  for (const std::string& ticket : {read, another}) {
    EXPECT_THROW(with_login_.check_caller("Bearer " + to_base64(as_bytes(ticket)), ""), UnauthenticatedError);
  }
  for (const char* wrong : {"", "Bearer ", "Bearer x", "Basic YWRhOmxhY2U="}) {
    EXPECT_THROW(with_login_.check_caller(wrong, ""), UnauthenticatedError) << wrong;
  }
  now_ += with_login_.access().login_lifetime_s + TicketKeys::kClockTolerance + 1;
  const std::string text = header;
  EXPECT_THAT([&] { with_login_.check_caller(text, ""); },
              ThrowsMessage<UnauthenticatedError>(HasSubstr("log in again; the ticket has expired 61 s ago")));
}

TEST_F(FlightService, LogsInByHeaderOrMessage) {
  using login::basic;
  EXPECT_EQ(with_token_.log_in(basic("ada:secret"), {}).authorization, "Bearer secret");
  EXPECT_THROW(with_token_.log_in(basic("ada:wrong"), {}), UnauthenticatedError);
  EXPECT_THROW(with_token_.log_in(basic("no colon"), {}), ProtocolError);
  EXPECT_THROW(with_token_.log_in("Basic \xff", {}), ProtocolError);
  const auto payload = [](Bytes bytes) { return encode(Handshake{.payload = std::move(bytes)}); };
  const Bytes answer = with_token_.log_in("", payload(encode(BasicAuth{"ada", "secret"}))).payload;
  EXPECT_EQ(decode_handshake(answer).payload, raw("secret"));
  EXPECT_EQ(decode_handshake(with_token_.log_in("", payload(raw("secret"))).payload).payload, raw("secret"));
  EXPECT_THROW(with_token_.log_in("", payload(raw("wrong"))), UnauthenticatedError);
  EXPECT_THROW(with_token_.log_in("", payload(encode(BasicAuth{"ada", ""}))), UnauthenticatedError);
  EXPECT_THROW(with_token_.log_in("", {}), UnauthenticatedError);
}

}  // namespace
}  // namespace crossdock::flight
