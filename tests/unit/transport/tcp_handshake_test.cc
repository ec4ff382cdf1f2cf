#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "tcp_support.h"
#include "transport/internal/socket_address.h"
#include "transport/net/crc32c.h"
#include "transport/net/record_stream.h"
#include "transport/net/records.h"
#include "transport/net/token.h"

namespace crossdock::transport::tcp_test {
namespace {

using namespace net;  // NOLINT(google-build-using-namespace): this is its test
using ::testing::HasSubstr;

/// A client's socket without a client: sends what it likes.
class RawSocket {
 public:
  explicit RawSocket(const std::string& address) {
    const SocketAddress endpoint = resolve("tcp", parse_address("tcp", address)).at(0);
    fd_.reset(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd_.get(), endpoint.get(), endpoint.size) != 0) throw_errno(errno, "connecting a raw socket");
    const timeval limit{10, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  void send(ByteSpan bytes) const {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  /// The next `size` bytes; fewer at the end.
  std::vector<std::byte> receive(std::size_t size) const {
    std::vector<std::byte> bytes(size);
    const ssize_t got = ::recv(fd_.get(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  std::vector<std::byte> receive_record() const {
    std::vector<std::byte> record = receive(kPreambleBytes);
    Preamble preamble;
    if (!decode(record, &preamble)) return {};
    const auto rest = receive(preamble.size - kPreambleBytes);
    record.insert(record.end(), rest.begin(), rest.end());
    return record;
  }
  int get() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class TcpHandshake : public ::testing::Test {
 protected:
  void listen(const TcpOptions& options = {}) {
    listener_ =
        tcp_listen("", 1, 2, options, [this](LogLevel, std::string_view text) { log_ += std::string(text) + "\n"; });
  }
  std::string address() const { return address_of(*listener_); }
  /// A server that goes on shaking hands until its listener and this are gone.
  void serve_in_background() {
    serving_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (auto connection = listener_->accept()) connections_.push_back(std::move(connection));
        await_event(*listener_, 10);
      }
    });
  }
  void stop() { serving_ = {}; }
  /// What the listener answers to `bytes`, until it closes.
  Refused refusal_of(const RawSocket& socket) {
    std::vector<std::byte> record;
    Refused refused;
    EXPECT_TRUE(decode(record = socket.receive_record(), &refused));
    EXPECT_TRUE(socket.receive(1).empty()) << "it closes";
    return refused;
  }
  template <typename E>
  void expect_connect_fails(const TcpOptions& options, const std::string& says) {
    try {
      tcp_connect(address(), options, 10'000, nullptr);
      ADD_FAILURE() << "it connected";
    } catch (const E& error) {
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  }

  std::string log_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::jthread serving_;
};

constexpr std::size_t kHello = 92;  // bytes, with its checksum

/// A record with the checksum that its bytes have.
std::vector<std::byte> summed(std::vector<std::byte> record) {
  const std::size_t end = record.size() - 4;
  store_le(&record[end], net::crc32c(ByteSpan(record).first(end)));
  return record;
}

Hello some_hello() { return {.features = 7, .max_message = 1000, .max_body = 1000, .nonce = make_nonce()}; }

TEST_F(TcpHandshake, LimitsAndWhatIsCarriedAreToldBothWays) {
  TcpOptions server;
  server.max_message = 5000;
  server.max_request = 900;
  server.max_body = 7000;
  listen(server);
  serve_in_background();
  TcpOptions client;
  client.max_message = 6000;
  client.max_body = 8000;
  const auto connection = tcp_connect(address(), client, 10'000, nullptr, {.role = ChannelRole::kData});
  stop();
  ASSERT_EQ(connections_.size(), 1u);
  EXPECT_EQ(connection->max_message(), 900u) << "of what a listener takes";
  EXPECT_EQ(connections_[0]->max_message(), 5000u);
  EXPECT_EQ(connection->max_body(), 7000u);
  EXPECT_EQ(connections_[0]->max_body(), 8000u);
  EXPECT_EQ(connections_[0]->agreement().role, ChannelRole::kData);
  EXPECT_TRUE(connections_[0]->agreement().cancel);
  EXPECT_FALSE(connection->agreement().same_user);
  EXPECT_EQ(connection->agreement().want_data, 1u);
  EXPECT_EQ(connection->agreement().free_data, 2u);
}

TEST_F(TcpHandshake, ACrowdThatHasSaidWhatItMustComesInWhole) {
  listen();
  constexpr std::size_t kCrowd = 100;  // more than may be shaking hands at once
  std::vector<std::unique_ptr<RawSocket>> crowd;
  for (std::size_t i = 0; i < kCrowd; ++i) {
    crowd.push_back(std::make_unique<RawSocket>(address()));
    crowd.back()->send(encode(some_hello()));
  }
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (connections_.size() < kCrowd && Clock::now() < deadline) {
    if (auto connection = listener_->accept()) {
      connections_.push_back(std::move(connection));
    } else {
      await_event(*listener_, 10);
    }
  }
  EXPECT_EQ(connections_.size(), kCrowd);
}

TEST_F(TcpHandshake, TheRightTokenOpens) {
  TcpOptions options;
  options.token = "correct horse battery staple";
  listen(options);
  serve_in_background();
  EXPECT_TRUE(tcp_connect(address(), options, 10'000, nullptr));
}

TEST_F(TcpHandshake, AWrongTokenIsToldLateAndLogged) {
  TcpOptions options;
  options.token = "correct";
  listen(options);
  serve_in_background();
  options.token = "wrong";
  const auto begin = Clock::now();
  expect_connect_fails<PermissionError>(options, "the token is wrong");
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(900)) << "guessing is slow";
  stop();
  EXPECT_THAT(log_, HasSubstr("gave a wrong token"));
  EXPECT_THAT(log_, ::testing::Not(HasSubstr("was rejected"))) << "one line is enough";
  EXPECT_EQ(connections_.size(), 0u);
}

TEST_F(TcpHandshake, NoTokenWhereOneIsNeeded) {
  TcpOptions options;
  options.token = "correct";
  listen(options);
  serve_in_background();
  expect_connect_fails<PermissionError>(
      {},
      "this server requires a token, and the client has none: give it as token= in Python, or in CROSSDOCK_TOKEN to "
      "the command crossdock");
}

TEST_F(TcpHandshake, AServerThatDoesNotKnowTheTokenIsNotTrusted) {
  listen();
  serve_in_background();
  TcpOptions options;
  options.token = "correct";
  expect_connect_fails<PermissionError>(options, "requests no token");
}

/// A server's end played by the test: `answer` gets the accepted socket.
void with_fake_server(const std::function<void(int)>& answer, const std::function<void(const std::string&)>& run) {
  UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress endpoint = resolve("tcp", {"127.0.0.1", 0}).at(0);
  ASSERT_EQ(::bind(listening.get(), endpoint.get(), endpoint.size), 0);
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  std::thread server([&] {
    const UniqueFd accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    answer(accepted.get());
  });
  run(to_uri("tcp", local_address(listening.get())).substr(4));
  server.join();
}

std::vector<std::byte> read_exactly(int socket, std::size_t size) {
  std::vector<std::byte> bytes(size);
  EXPECT_EQ(::recv(socket, bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
  return bytes;
}

void write_all(int socket, ByteSpan bytes) { ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

TEST_F(TcpHandshake, AServerThatOnlyRepeatsOurProofIsFoundOut) {
  with_fake_server(
      [](int socket) {
        const auto hello = read_exactly(socket, kHello);
        write_all(socket, encode(Challenge{make_nonce()}));
        const auto proof = read_exactly(socket, 56);
        Welcome welcome{.features = 7, .max_message = 1000, .max_body = 1000};
        std::memcpy(welcome.proof.data(), proof.data() + 24, 32);
        write_all(socket, encode(welcome));
        std::byte end;
        EXPECT_EQ(::recv(socket, &end, 1, 0), 0);
      },
      [](const std::string& address) {
        TcpOptions options;
        options.token = "correct";
        EXPECT_THROW(tcp_connect(address, options, 10'000, nullptr), PermissionError);
      });
}

TEST_F(TcpHandshake, ClientsNameWhatTheyMet) {
  const auto meet = [](std::vector<std::byte> answer, ErrorCode expected, const std::string& says) {
    with_fake_server(
        [&](int socket) {
          read_exactly(socket, kHello);
          write_all(socket, answer);
        },
        [&](const std::string& address) {
          try {
            tcp_connect(address, {}, 10'000, nullptr);
            ADD_FAILURE() << says;
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), expected) << error.what();
            EXPECT_THAT(error.what(), HasSubstr(says));
          }
        });
  };
  auto other_version = encode(Welcome{.max_message = 1});
  store_le(&other_version[12], std::uint32_t{9});
  meet(other_version, ErrorCode::kHandshake, "version 9");
  auto tls = encode(Welcome{.max_message = 1});
  store_le(&tls[20], std::uint32_t{1});
  meet(tls, ErrorCode::kHandshake, "mode");
  auto short_welcome = encode(Challenge{});
  store_le(&short_welcome[8], std::uint32_t{2});
  meet(short_welcome, ErrorCode::kHandshake, "too short");
  meet(encode(some_hello()), ErrorCode::kHandshake, "something else");
  const std::string http = "HTTP/1.1 400 Bad Request\r\n\r\n";
  meet({as_bytes(http).begin(), as_bytes(http).end()}, ErrorCode::kHandshake, "not a Crossdock server");
  meet({}, ErrorCode::kHandshake, "instead of answering");
  meet(encode(Refused{Refusal::kResources, "no room\n\x1b[31m"}), ErrorCode::kConnection, "no room\\n\\x1b[31m");
}

TEST_F(TcpHandshake, AServerThatSaysNothingTimesOut) {
  with_fake_server(
      [](int socket) {
        read_exactly(socket, kHello);
        std::byte end;
        EXPECT_EQ(::recv(socket, &end, 1, 0), 0) << "the client goes";
      },
      [](const std::string& address) { EXPECT_THROW(tcp_connect(address, {}, 50, nullptr), TimeoutError); });
  with_fake_server(
      [](int socket) {
        read_exactly(socket, kHello);
        std::byte end;
        EXPECT_EQ(::recv(socket, &end, 1, 0), 0) << "the client goes";
      },
      [](const std::string& address) {
        int asked = 0;
        EXPECT_THROW(tcp_connect(address, {}, -1, [&] { return ++asked > 2; }), InterruptedError);
      });
}

TEST_F(TcpHandshake, NobodyThereIsAConnectionError) {
  listen();
  const std::string gone = address();
  listener_.reset();
  EXPECT_THROW(tcp_connect(gone, {}, 10'000, nullptr), ConnectionError);
  EXPECT_THROW(tcp_connect("//127.0.0.1", {}, 10'000, nullptr), UriError);
  EXPECT_THROW(tcp_connect("//*:7700", {}, 10'000, nullptr), UriError);
}

TEST_F(TcpHandshake, OnePortIsForOneServer) {
  listen();
  EXPECT_THROW(tcp_listen(address(), 0, 0, {}, nullptr), ConnectionError);
  EXPECT_THROW(tcp_listen("//192.0.2.1:7700", 0, 0, {}, nullptr), ConnectionError) << "not this machine's";
}

TEST_F(TcpHandshake, EveryAddressIsServedUnderTheNameThatWasGiven) {
  TcpOptions options;
  options.advertised_host = "data.example";
  EXPECT_THAT(tcp_listen("//0.0.0.0:0", 1, 2, options, nullptr)->uri(), HasSubstr("tcp://data.example:"));
}

TEST_F(TcpHandshake, BadOptionsAreNamed) {
  const auto refused = [](auto change) {
    TcpOptions options;
    change(options);
    EXPECT_THROW(make_tcp_transport(options), InvalidArgumentError);
    EXPECT_THROW(tcp_listen("", 0, 0, options, nullptr), InvalidArgumentError);
    EXPECT_THROW(tcp_connect("//127.0.0.1:1", options, 0, nullptr), InvalidArgumentError);
  };
  refused([](TcpOptions& o) { o.max_message = 0; });
  refused([](TcpOptions& o) { o.max_request = 0; });
  refused([](TcpOptions& o) { o.max_message = UINT64_MAX; });
  refused([](TcpOptions& o) { o.max_body = UINT64_MAX; });
  refused([](TcpOptions& o) { o.handshake_timeout = std::chrono::milliseconds(0); });
  refused([](TcpOptions& o) { o.send_buffer = -1; });
  refused([](TcpOptions& o) { o.receive_buffer = -1; });
  refused([](TcpOptions& o) { o.keepalive = std::chrono::seconds(-1); });
  refused([](TcpOptions& o) { o.user_timeout = std::chrono::milliseconds(-1); });
  refused([](TcpOptions& o) { o.token.assign(1025, 'x'); });
}

// --- clients that misbehave ---

TEST_F(TcpHandshake, BadOpeningsAreRefusedByName) {
  listen();
  serve_in_background();
  const auto send = [&](std::vector<std::byte> bytes) {
    const RawSocket socket(address());
    socket.send(bytes);
    return refusal_of(socket);
  };
  auto hello = encode(some_hello());
  auto bad = hello;
  bad[0] = std::byte{'Y'};
  EXPECT_EQ(send(bad).code, Refusal::kMalformed) << "magic";
  bad = hello;
  store_le(&bad[12], std::uint32_t{2});
  EXPECT_EQ(send(bad).code, Refusal::kOtherVersion);
  bad = hello;
  store_le(&bad[20], std::uint32_t{1});
  EXPECT_EQ(send(bad).code, Refusal::kMode);
  for (const std::uint32_t size : {0u, 23u, 513u, 0xFFFFFFFFu}) {
    bad = hello;
    store_le(&bad[16], size);
    EXPECT_EQ(send(bad).code, Refusal::kMalformed) << size;
  }
  for (const std::uint32_t type : {0u, 2u, 5u, 6u}) {
    bad = hello;
    store_le(&bad[8], type);
    EXPECT_EQ(send(bad).code, Refusal::kMalformed) << type;
  }
  bad = hello;
  bad.resize(80);
  store_le(&bad[16], std::uint32_t{80});
  EXPECT_EQ(send(bad).code, Refusal::kMalformed) << "too short";
  bad = hello;
  store_le(&bad[48], std::uint32_t{3});
  EXPECT_THAT(send(summed(bad)).reason, HasSubstr("the client is a peer (xd.peers)"));
  store_le(&bad[48], std::uint32_t{4});
  EXPECT_THAT(send(summed(bad)).reason, HasSubstr("channel role 4"));
  bad = hello;
  store_le(&bad[32], std::uint64_t{0});
  EXPECT_THAT(send(summed(bad)).reason, HasSubstr("max_message is 0"));
  EXPECT_EQ(send({as_bytes("GET / HTTP/1.1\r\nHost: x\r\n\r\n").begin(),
                  as_bytes("GET / HTTP/1.1\r\nHost: x\r\n\r\n").begin() + 27})
                .code,
            Refusal::kMalformed);
  EXPECT_TRUE(tcp_connect(address(), {}, 10'000, nullptr)) << "others are served";
}

TEST_F(TcpHandshake, ADamagedOpeningIsRefusedAtWhateverByte) {
  TcpOptions options;
  options.handshake_timeout =
      std::chrono::milliseconds(300);  // of an opening whose length was damaged the rest never comes
  listen(options);
  serve_in_background();
  const auto hello = encode(some_hello());
  for (std::size_t at = 0; at < hello.size(); ++at) {
    auto damaged = hello;
    damaged[at] ^= static_cast<std::byte>(1 << (at % 8));
    const RawSocket socket(address());
    socket.send(damaged);
    const auto answer = socket.receive_record();
    ASSERT_FALSE(answer.empty()) << at;
    Preamble preamble;
    ASSERT_TRUE(decode(answer, &preamble));
    EXPECT_EQ(preamble.type, RecordType::kRefused) << at;
  }
  stop();
  EXPECT_THAT(log_, HasSubstr("the client's HELLO was damaged"));
}

TEST_F(TcpHandshake, ADamagedWelcomeIsRefusedAtWhateverByte) {
  const auto good = encode(Welcome{.features = 8, .max_message = 1000, .max_body = 1000});
  for (std::size_t at = 0; at < good.size(); ++at) {
    auto damaged = good;
    damaged[at] ^= static_cast<std::byte>(1 << (at % 8));
    with_fake_server(
        [&](int socket) {
          read_exactly(socket, kHello);
          write_all(socket, damaged);
        },
        [&](const std::string& address) {
          EXPECT_THROW(tcp_connect(address, {}, 10'000, nullptr), HandshakeError) << at;
        });
  }
}

TEST_F(TcpHandshake, ChecksumsAreUsedWhereBothKnowThemAndOneAsks) {
  struct Case {
    Checksum client, server;
    bool used;
  };
  for (const Case& c : std::initializer_list<Case>{{Checksum::kAuto, Checksum::kAuto, false},
                                                   {Checksum::kAuto, Checksum::kOn, true},
                                                   {Checksum::kOn, Checksum::kAuto, true},
                                                   {Checksum::kOn, Checksum::kOn, true},
                                                   {Checksum::kAuto, Checksum::kOff, false},
                                                   {Checksum::kOff, Checksum::kAuto, false}}) {
    TcpOptions options;
    options.checksum = c.server;
    listen(options);
    serve_in_background();
    options.checksum = c.client;
    const auto connection = tcp_connect(address(), options, 10'000, nullptr);
    stop();
    ASSERT_EQ(connections_.size(), 1u);
    EXPECT_EQ(connection->agreement().checksums, c.used);
    EXPECT_EQ(connections_[0]->agreement().checksums, c.used);
    connections_.clear();
  }
}

TEST_F(TcpHandshake, WhoDemandsChecksumsRefusesAPeerWithoutThem) {
  TcpOptions on;
  on.checksum = Checksum::kOn;
  TcpOptions off;
  off.checksum = Checksum::kOff;
  listen(on);
  serve_in_background();
  expect_connect_fails<HandshakeError>(off, "requires checksums");
  stop();
  listen(off);
  serve_in_background();
  expect_connect_fails<HandshakeError>(on, "offers no checksums");
}

TEST_F(TcpHandshake, AnOpeningOfAnOlderClientNeedsNoChecksum) {
  listen();
  serve_in_background();
  auto hello = encode(some_hello());
  hello.resize(kHello - 4);
  store_le(&hello[16], static_cast<std::uint32_t>(hello.size()));
  const RawSocket socket(address());
  socket.send(hello);
  Welcome welcome;
  EXPECT_TRUE(decode(socket.receive_record(), &welcome));
  // One that knows checksums has one.
  store_le(&hello[24], std::uint64_t{7 | 8});
  const RawSocket other(address());
  other.send(hello);
  EXPECT_THAT(refusal_of(other).reason, HasSubstr("damaged"));
}

TEST_F(TcpHandshake, AnOpeningMayComeByteByByte) {
  listen();
  serve_in_background();
  const RawSocket socket(address());
  const auto hello = encode(some_hello());
  for (const std::byte byte : hello) socket.send({&byte, 1});
  Welcome welcome;
  EXPECT_TRUE(decode(socket.receive_record(), &welcome));
  EXPECT_EQ(welcome.want_data, 1u);
}

TEST_F(TcpHandshake, WhoStallsIsDroppedInTimeAndHoldsUpNobody) {
  TcpOptions options;
  options.handshake_timeout = std::chrono::milliseconds(300);
  options.token = "correct";
  listen(options);
  serve_in_background();
  const RawSocket silent(address());
  const RawSocket halfway(address());
  halfway.send(ByteSpan(encode(some_hello())).first(50));
  const RawSocket without_proof(address());
  Hello hello = some_hello();
  hello.has_token = true;
  without_proof.send(encode(hello));
  EXPECT_FALSE(without_proof.receive_record().empty()) << "the challenge";
  EXPECT_TRUE(tcp_connect(address(), options, 10'000, nullptr)) << "others are served meanwhile";
  for (const RawSocket* socket : {&silent, &halfway, &without_proof}) {
    EXPECT_THAT(refusal_of(*socket).reason, HasSubstr("within 0.3 s"));
  }
}

TEST_F(TcpHandshake, AFloodOfSilentClientsHoldsUpNobody) {
  listen();
  serve_in_background();
  std::vector<RawSocket> flood;
  for (int i = 0; i < 100; ++i) flood.emplace_back(address());
  EXPECT_TRUE(tcp_connect(address(), {}, 10'000, nullptr));
}

TEST_F(TcpHandshake, WrongTokensOfOneAddressKeepNobodyElseOut) {
  TcpOptions options;
  options.token = "correct";
  listener_ = tcp_listen("//*:0", 1, 2, options, nullptr);
  serve_in_background();
  const std::string uri = listener_->uri();
  const std::string port = uri.substr(uri.rfind(':'));
  Hello hello = some_hello();
  hello.has_token = true;
  // Answers to wrong tokens of this address, once each is looked at or not.
  const auto guess = [&](const RawSocket& socket) {
    socket.send(encode(hello));
    EXPECT_FALSE(socket.receive_record().empty()) << "the challenge";
    socket.send(encode(TokenProof{}));
  };
  constexpr int kAnswered = 16;
  std::vector<RawSocket> guessers;
  for (int i = 0; i < 2 * kAnswered; ++i) guessers.emplace_back("//127.0.0.1" + port);
  const auto start = std::chrono::steady_clock::now();
  for (const RawSocket& guesser : guessers) guess(guesser);
  TcpOptions right = options;
  EXPECT_TRUE(tcp_connect("//[::1]" + port, right, 10'000, nullptr)) << "another address";
  int late = 0;
  for (const RawSocket& guesser : guessers) {
    const Refused refused = refusal_of(guesser);
    if (refused.code == Refusal::kNotAllowed) {
      ++late;
    } else {
      EXPECT_EQ(refused.code, Refusal::kResources);
      EXPECT_THAT(refused.reason, HasSubstr("too many wrong tokens arrived from this address"));
    }
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(900));
  EXPECT_GE(late, kAnswered);
  EXPECT_TRUE(tcp_connect("//127.0.0.1" + port, right, 10'000, nullptr)) << "the wait is over";
}

TEST_F(TcpHandshake, AProofIsGoodForOneHandshakeOnly) {
  TcpOptions options;
  options.token = "correct";
  listen(options);
  serve_in_background();
  Hello hello = some_hello();
  hello.has_token = true;
  const auto opening = encode(hello);
  const auto run = [&](const std::vector<std::byte>* proof) {
    const RawSocket socket(address());
    socket.send(opening);
    const auto challenge = socket.receive_record();
    const std::array<ByteSpan, 2> records = {opening, challenge};
    auto made = encode(TokenProof{prove("correct", "crossdock tcp 1 client", records)});
    socket.send(proof ? *proof : made);
    Welcome welcome;
    Refused refused;
    const auto answer = socket.receive_record();
    if (proof) {
      EXPECT_TRUE(decode(answer, &refused));
      EXPECT_EQ(refused.code, Refusal::kNotAllowed);
    } else {
      EXPECT_TRUE(decode(answer, &welcome));
      const std::array<ByteSpan, 3> all = {opening, challenge, proven_part(answer)};
      EXPECT_TRUE(same(welcome.proof, prove("correct", "crossdock tcp 1 server", all)));
    }
    return made;
  };
  const auto overheard = run(nullptr);
  run(&overheard);
}

TEST(TcpToken, ProofsAreHmacSha256OverRoleAndRecords) {
  // RFC 4231, test case 2: the key "Jefe", the text "what do ya want for nothing?".
  const std::string_view text = "what do ya want for nothing?";
  const std::array<ByteSpan, 2> records = {as_bytes(text.substr(5, 10)), as_bytes(text.substr(15))};
  const Proof proof = prove("Jefe", text.substr(0, 5), records);
  const std::array<unsigned char, 32> expected = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                                                  0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                                                  0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  EXPECT_EQ(std::memcmp(proof.data(), expected.data(), expected.size()), 0);
  EXPECT_NE(make_nonce(), make_nonce());
}

}  // namespace
}  // namespace crossdock::transport::tcp_test
