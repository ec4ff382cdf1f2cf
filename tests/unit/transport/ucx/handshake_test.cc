// The handshake of the ucx transport: what it agrees on, and how it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "device/region.h"
#include "support.h"
#include "transport/net/records.h"
#include "transport/ucx.h"

namespace crossdock::transport::ucx_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

/// Runs `body`, and returns the text of the Expected that it throws.
template <typename Expected, typename Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Expected& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

class UcxHandshake : public ::testing::Test {
 protected:
  ~UcxHandshake() override {
    stop_ = true;
    if (serving_.joinable()) serving_.join();
  }

  /// Accepts clients on a thread, and keeps their connections.
  void serve(const UcxOptions& options = {}, bool reject_all = false) {
    listener_ = ucx_listen("", 7, 9, options, [this](LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex_);
      log_.emplace_back(text);
    });
    listener_->reject_all(reject_all);
    serving_ = std::thread([this] {
      while (!stop_) {
        if (auto connection = listener_->accept()) connections_.push_back(std::move(connection));
        pollfd event{listener_->descriptor(), POLLIN, 0};
        ::poll(&event, 1, 10);
      }
    });
  }
  std::unique_ptr<Connection> connect(const UcxOptions& options = {}, int timeout_ms = kLongMs) const {
    return ucx_connect(listener_->uri().substr(4), options, timeout_ms, nullptr);
  }
  std::vector<std::string> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  /// A client that speaks UCX, and no handshake until its test says so.
  End raw_client() {
    const std::string uri = listener_->uri();
    const SocketAddress address = resolve("ucx", parse_address("ucx", uri.substr(4))).at(0);
    End end;
    end.worker = std::make_shared<Worker>(contexts_.for_remote(address), kLimits, "the server");
    end.endpoint = Endpoint::connect(end.worker, address);
    return end;
  }
  /// Waits for the server's rejection.
  static Refused await_rejection(End& client) {
    std::optional<Received> got;
    Refused refused;
    if (!run_until({client.worker.get()}, nullptr, [&] { return (got = client.worker->take()).has_value(); }) ||
        !net::decode(got->bytes, &refused)) {
      ADD_FAILURE() << "no rejection came";
    }
    return refused;
  }

  /// Expects that the server closes the connection, and sends nothing before.
  static void await_end_without_a_word(End& client) {
    EXPECT_TRUE(run_until({client.worker.get()}, nullptr, [&] { return client.endpoint->failure().has_value(); }));
    EXPECT_EQ(client.worker->take(), std::nullopt);
  }
  /// Accepts on this thread until `done()`. Returns the last connection.
  std::unique_ptr<Connection> accept_until(End& client, const std::function<bool(Connection*)>& done) {
    std::unique_ptr<Connection> connection;
    const auto deadline = Clock::now() + std::chrono::milliseconds(kLongMs);
    for (;;) {
      client.worker->progress();
      if (auto next = listener_->accept()) connection = std::move(next);
      if (done(connection.get())) return connection;
      if (Clock::now() >= deadline) throw std::runtime_error("it took too long");
      pollfd event{listener_->descriptor(), POLLIN, 0};
      ::poll(&event, 1, 10);
    }
  }
  std::unique_ptr<Connection> accept_for(End& client) {
    return accept_until(client, [](const Connection* connection) { return connection != nullptr; });
  }

  std::unique_ptr<Listener> listener_;
  UcxContexts contexts_{UcxOptions{}};

 private:
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<bool> stop_{false};
  std::thread serving_;
};

TEST_F(UcxHandshake, BothLimitsAndTheTagsAreAgreed) {
  UcxOptions options;
  options.max_request = 5000;
  options.max_body = 1 << 20;
  serve(options);
  UcxOptions client;
  client.max_message = 9000;
  const auto connection = connect(client);
  EXPECT_EQ(connection->max_message(), 5000u);
  EXPECT_EQ(connection->max_body(), 1u << 20);
  EXPECT_EQ(connection->agreement().want_data, 7u);
  EXPECT_EQ(connection->agreement().free_data, 9u);
  EXPECT_EQ(connection->agreement().ways, Way::kRead | Way::kMessage);
  EXPECT_EQ(connection->agreement().carrier, "ucx");
}

TEST_F(UcxHandshake, AWrongTokenIsRejected) {
  UcxOptions options;
  options.token = "correct";
  serve(options);
  EXPECT_TRUE(connect(options));
  EXPECT_THAT(error_of<PermissionError>([&] { connect(); }), HasSubstr("requires a token"));
  UcxOptions wrong;
  wrong.token = "wrong";
  EXPECT_THAT(error_of<PermissionError>([&] { connect(wrong); }), HasSubstr("the token is wrong"));
  EXPECT_THAT(log(), Contains(HasSubstr("gave a wrong token")));
}

TEST_F(UcxHandshake, AServerWithoutTheTokenIsNotTrusted) {
  serve();
  UcxOptions options;
  options.token = "correct";
  EXPECT_THAT(error_of<PermissionError>([&] { connect(options); }), HasSubstr("leave the token out"));
}

TEST_F(UcxHandshake, AFullServerSaysSo) {
  serve({}, /*reject_all=*/true);
  EXPECT_THAT(error_of<ConnectionError>([&] { connect(); }), HasSubstr("limit of connections"));
}

TEST_F(UcxHandshake, AClientThatSaysNothingIsRejectedAfterAWhile) {
  UcxOptions options;
  options.handshake_timeout = std::chrono::milliseconds(50);
  serve(options);
  End client = raw_client();
  await_end_without_a_word(client);
  EXPECT_THAT(log(), Contains(HasSubstr("no handshake arrived within 0.05 s")));
  UcxOptions patient;
  EXPECT_TRUE(connect(patient)) << "the next client is served";
}

TEST_F(UcxHandshake, AClientStrictlyAsSpecifiedHasNoFeatures) {
  UcxOptions options;
  options.max_body = 5000;
  listener_ = ucx_listen("", 7, 9, options, nullptr);
  End client = raw_client();
  ASSERT_TRUE(client.endpoint->send_tagged(7, as_bytes("numbers"), {}));
  std::unique_ptr<Connection> server = accept_for(client);
  const Agreement& agreement = server->agreement();
  EXPECT_TRUE(agreement.as_specified);
  EXPECT_EQ(agreement.want_data, 7u);
  EXPECT_EQ(agreement.free_data, 9u);
  EXPECT_EQ(agreement.ways, Ways(Way::kMessage));
  EXPECT_EQ(agreement.max_body, 5000u);
  EXPECT_FALSE(agreement.error_messages || agreement.counted_leases || agreement.cancel || agreement.same_user);
  EXPECT_TRUE(server->readable());
  const std::optional<Incoming> request = server->receive();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->tag, 7u);
  EXPECT_EQ(as_text(request->bytes), "numbers");
  // What was sent arrives before the end, and nothing else comes.
  constexpr std::size_t kMessages = 200;
  for (std::size_t i = 0; i < kMessages; ++i) ASSERT_TRUE(server->send(pattern(1000), {}));
  EXPECT_TRUE(server->below_window(1000));
  server.reset();
  std::vector<Received> got;
  accept_until(client, [&](const Connection*) {
    const bool ended = client.endpoint->failure().has_value();
    while (std::optional<Received> one = client.worker->take()) got.push_back(*std::move(one));
    return ended;
  });
  EXPECT_EQ(got.size(), kMessages);
  for (const Received& one : got) ASSERT_EQ(one.kind, MessageKind::kUntagged);
}

TEST_F(UcxHandshake, AClientStrictlyAsSpecifiedSendsNoControlMessages) {
  listener_ = ucx_listen("", 7, 9, {}, nullptr);
  End client = raw_client();
  ASSERT_TRUE(client.endpoint->send_tagged(7, as_bytes("numbers"), {}));
  ASSERT_TRUE(client.endpoint->send_control(as_bytes("goodbye")));
  std::unique_ptr<Connection> server = accept_for(client);
  const std::string text = error_of<ProtocolError>([&] {
    accept_until(client, [&](const Connection*) {
      server->receive();
      return false;
    });
  });
  EXPECT_THAT(text, HasSubstr("active message with the id 1"));
}

TEST_F(UcxHandshake, AnotherFirstMessageIsRejectedWithoutAWord) {
  serve();
  const std::function<void(Endpoint&)> others[] = {
      [](Endpoint& client) { client.send_untagged(as_bytes("x"), {}); },
      [](Endpoint& client) { client.send_tagged(8, as_bytes("x"), {}); },
      [](Endpoint& client) { client.send_tagged(9, as_bytes("12345678"), {}); },
  };
  for (const auto& send : others) {
    End client = raw_client();
    send(*client.endpoint);
    await_end_without_a_word(client);
  }
  EXPECT_THAT(log(), Contains(HasSubstr("nor one strictly as specified")).Times(3));
}

TEST_F(UcxHandshake, AMessageInTheMiddleOfTheHandshakeIsRejected) {
  UcxOptions options;
  options.token = "correct";
  serve(options);
  End client = raw_client();
  ASSERT_TRUE(client.endpoint->send_control(net::encode(net::Hello{.max_message = 1000, .has_token = true})));
  ASSERT_TRUE(client.endpoint->send_tagged(7, as_bytes("numbers"), {}));
  EXPECT_TRUE(run_until({client.worker.get()}, nullptr, [&] { return client.endpoint->failure().has_value(); }));
  EXPECT_THAT(log(), Contains(HasSubstr("before the end of its handshake")));
}

TEST_F(UcxHandshake, ATokenRejectsClientsStrictlyAsSpecified) {
  UcxOptions options;
  options.token = "correct";
  serve(options);
  End client = raw_client();
  ASSERT_TRUE(client.endpoint->send_tagged(7, as_bytes("numbers"), {}));
  await_end_without_a_word(client);
  EXPECT_THAT(log(), Contains(HasSubstr("can't prove that it knows the token")));
}

TEST_F(UcxHandshake, AnEndThatClosesWakesItsListener) {
  listener_ = ucx_listen("", 7, 9, {}, nullptr);
  End client = raw_client();
  ASSERT_TRUE(client.endpoint->send_tagged(7, as_bytes("numbers"), {}));
  std::unique_ptr<Connection> server = accept_for(client);
  const auto readable = [&] {
    pollfd event{listener_->descriptor(), POLLIN, 0};
    return ::poll(&event, 1, 0) > 0;
  };
  for (int i = 0; i < 100 && readable(); ++i) listener_->accept();
  ASSERT_FALSE(readable());
  const auto body = pattern(1 << 20);
  const std::vector<ByteSpan> parts = {body};
  ASSERT_TRUE(server->send_body(1, parts, nullptr));
  server.reset();
  EXPECT_TRUE(readable()) << "it does the work of those that close";
}

TEST_F(UcxHandshake, AServerStrictlyAsSpecifiedNeedsWhatThisClientHas) {
  serve();
  const std::string address = listener_->uri().substr(4);
  const auto connect_as_specified = [&](const UcxOptions& options, const ConnectOptions& wishes) {
    return ucx_connect(address, options, kLongMs, nullptr, wishes);
  };
  UcxOptions narrow;
  narrow.max_body = 5000;
  const auto connection = connect_as_specified(narrow, {.specified = SpecifiedServer{.want_data = 7}});
  EXPECT_EQ(connection->agreement().max_body, 5000u);
  EXPECT_TRUE(connection->agreement().as_specified);
  EXPECT_EQ(connection->agreement().free_data, std::nullopt);
  EXPECT_THROW(connection->peer_region(4096, 0), UnsupportedError);
  const auto refusal = [&](const UcxOptions& options, const ConnectOptions& wishes) {
    return error_of<UnsupportedError>([&] { connect_as_specified(options, wishes); });
  };
  UcxOptions token;
  token.token = "secret";
  EXPECT_THAT(refusal(token, {.specified = SpecifiedServer{}}), HasSubstr("the token"));
  EXPECT_THAT(refusal({}, {.ways = Way::kRead, .specified = SpecifiedServer{}}), HasSubstr("wants (read)"));
  EXPECT_THAT(refusal({}, {.specified = SpecifiedServer{.remote_handle = pattern(9)}}), HasSubstr("remote_reads"));
}

TEST_F(UcxHandshake, RegionsAreOfferedOnlyWhereThatIsAllowed) {
  device::RegionWriter writer("test");
  writer.append(pattern(10'000));
  const std::shared_ptr<const device::Region> region = writer.freeze();
  EXPECT_THAT(error_of<UnsupportedError>([&] { ucx_listen("", 7, 9, {}, nullptr)->offer(region); }),
              HasSubstr("remote_reads"));
  const auto listener = ucx_listen("", 7, 9, {.remote_reads = true}, nullptr);
  const SpecifiedServer offered = listener->offer(region);
  EXPECT_NE(offered.want_data, 7u);
  EXPECT_EQ(offered.free_data, 9u);
  EXPECT_FALSE(offered.remote_handle.empty());
  EXPECT_EQ(listener->offer(region).want_data, offered.want_data) << "a region has one tag";
}

TEST_F(UcxHandshake, AnotherRecordAndGarbageAreRejected) {
  serve();
  for (const std::vector<std::byte>& opening :
       {pattern(100), std::vector<std::byte>{}, net::encode(net::Challenge{}), net::encode(net::TokenProof{})}) {
    End client = raw_client();
    ASSERT_TRUE(client.endpoint->send_control(opening));
    EXPECT_THAT(await_rejection(client).reason, HasSubstr("sent no HELLO"));
  }
  EXPECT_TRUE(connect());
}

TEST_F(UcxHandshake, AnotherVersionIsNamed) {
  serve();
  End client = raw_client();
  auto hello = net::encode(net::Hello{.max_message = 1000});
  store_le(&hello[12], std::uint32_t{99});
  ASSERT_TRUE(client.endpoint->send_control(hello));
  const Refused refused = await_rejection(client);
  EXPECT_EQ(refused.code, Refusal::kOtherVersion);
  EXPECT_THAT(refused.reason, AllOf(HasSubstr("version 99"), HasSubstr("version 1")));
}

TEST_F(UcxHandshake, ASilentServerEndsInATimeOut) {
  listener_ = ucx_listen("", 7, 9, {}, nullptr);  // and accepts nobody
  EXPECT_THROW(connect({}, 100), TimeoutError);
  const ConnectOptions as_specified{.specified = SpecifiedServer{.want_data = 7}};
  EXPECT_THROW(ucx_connect(listener_->uri().substr(4), {}, 100, nullptr, as_specified), TimeoutError);
}

TEST_F(UcxHandshake, NoServerIsAConnectionError) {
  std::string address;
  {
    const auto listener = ucx_listen("", 7, 9, {}, nullptr);
    address = listener->uri().substr(4);
  }
  EXPECT_THAT(error_of<ConnectionError>([&] { ucx_connect(address, {}, kLongMs, nullptr); }),
              HasSubstr("is the server up"));
}

TEST_F(UcxHandshake, AnInterruptEndsTheWait) {
  listener_ = ucx_listen("", 7, 9, {}, nullptr);
  EXPECT_THROW(ucx_connect(listener_->uri().substr(4), {}, -1, [] { return true; }), InterruptedError);
}

TEST_F(UcxHandshake, AddressesToConnectToAreChecked) {
  EXPECT_THROW(ucx_connect("//127.0.0.1", {}, kLongMs, nullptr), UriError);
  EXPECT_THROW(ucx_connect("//*:7700", {}, kLongMs, nullptr), UriError);
}

TEST_F(UcxHandshake, AListenerOfEveryAddressNamesAHost) {
  UcxOptions options;
  options.advertised_host = "somewhere.example";
  const auto listener = ucx_listen("//*:0", 7, 9, options, nullptr);
  EXPECT_THAT(listener->uri(), ::testing::StartsWith("ucx://somewhere.example:"));
}

TEST_F(UcxHandshake, OptionsThatCannotWorkAreRejected) {
  const auto rejects = [](auto change, const std::string& text) {
    UcxOptions options;
    change(options);
    EXPECT_THAT(error_of<InvalidArgumentError>([&] { make_ucx_transport(options); }), HasSubstr(text));
  };
  rejects([](UcxOptions& options) { options.max_message = 0; }, "UcxOptions::max_message");
  rejects([](UcxOptions& options) { options.max_request = 0; }, "UcxOptions::max_request");
  rejects([](UcxOptions& options) { options.max_body = ~0ull; }, "UcxOptions::max_body");
  rejects([](UcxOptions& options) { options.token = std::string(1025, 'x'); }, "UcxOptions::token");
  rejects([](UcxOptions& options) { options.handshake_timeout = std::chrono::milliseconds(0); },
          "handshake_timeout is 0");
  rejects([](UcxOptions& options) { options.keepalive = std::chrono::seconds(-1); }, "UcxOptions::keepalive");
  rejects([](UcxOptions& options) { options.user_timeout = std::chrono::milliseconds(-1); },
          "UcxOptions::user_timeout");
  rejects([](UcxOptions& options) { options.transports = ""; }, "UcxOptions::transports");
  rejects(
      [](UcxOptions& options) {
        options.token = "secret";
        options.remote_reads = true;
      },
      "remote reads let every process");
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
