// Peers that shake hands as they must, and then break the rules.
#include <filesystem>

#include "support.h"

namespace crossdock::transport::fabric_test {
namespace {

using net::FrameKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A client of a server that does what the test likes.
class FabricHostileServer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
  }
  void connect(const FabricOptions& options = {}, Ways ways = Way::kRead | Way::kMessage) {
    auto connecting = std::async(std::launch::async,
                                 [&] { return fabric_connect(server_.address(), options, kPatienceMs, nullptr); });
    server_.serve(ways);
    client_ = connecting.get();
  }
  void announce_body(const BodyAnnouncement& body) { server_.frame(FrameKind::kBodyBeside, 3, encode(body)); }
  void announce(std::uint16_t number, const RegionAnnouncement& region) {
    server_.frame(FrameKind::kRegion, number, encode(region));
  }
  /// Sends a message beside the link.
  void send(ByteSpan bytes, std::uint64_t tag) {
    const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const auto sent = std::make_shared<Counted>(Operation::Kind::kSend);
    ASSERT_TRUE(server_.run([&] { return server_.endpoint->send({&part, 1}, tag, sent); }));
  }
  /// Receives until the error, while the server's endpoint makes progress.
  std::string error() {
    const auto deadline = in_patience();
    try {
      while (Clock::now() < deadline) {
        client_->receive();
        if (server_.endpoint) server_.endpoint->progress();
        wait_readable(*client_, WaitMode::kBlock, in_ns(Clock::now() + std::chrono::milliseconds(1)), nullptr);
      }
    } catch (const ProtocolError& error) {
      EXPECT_THROW(client_->receive(), ProtocolError) << "an error is permanent";
      return std::string("ProtocolError: ") + error.what();
    } catch (const ConnectionError& error) {
      return std::string("ConnectionError: ") + error.what();
    }
    return "none";
  }
  std::string read(std::uint64_t address, std::size_t size) {
    Bytes to(size);
    const ReadPart part{address, size, to.data()};
    const auto reading = client_->read({&part, 1}, nullptr);
    const auto deadline = in_patience();
    try {
      while (!reading->done() && Clock::now() < deadline) server_.endpoint->progress();
      return "done";
    } catch (const ProtocolError& error) {
      return std::string("ProtocolError: ") + error.what();
    } catch (const ConnectionError& error) {
      return std::string("ConnectionError: ") + error.what();
    }
  }

  RawEnd server_;
  std::unique_ptr<Connection> client_;
};

TEST_F(FabricHostileServer, MayFollowTheRules) {
  connect();
  const Bytes body = pattern(1 << 20);
  announce_body({1 << 20, 50, {1000, (1 << 20) - 1000}});
  send(ByteSpan(body).first(1000), 50);
  send(ByteSpan(body).subspan(1000), 51);
  std::optional<Incoming> got;
  EXPECT_TRUE(server_.run([&] { return (got = client_->receive()).has_value(); }));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->tag, 3u);
  EXPECT_TRUE(std::ranges::equal(got->bytes, body));
}

TEST_F(FabricHostileServer, SendsMoreOfABodyThanAnnounced) {
  connect();
  const Bytes body = pattern(1 << 20);
  announce_body({100'000, 50, {100'000}});
  send(body, 50);
  EXPECT_THAT(error(), AllOf(HasSubstr("ProtocolError"), HasSubstr("more of a body than it had announced")));
}

TEST_F(FabricHostileServer, BreaksARuleWhileAnotherBodyComes) {
  const std::size_t size = 64 << 20;
  struct Watching final : BodyMemory {
    std::shared_ptr<std::byte> allocate(std::uint64_t bytes) override {
      std::shared_ptr<std::byte> made(new std::byte[bytes], std::default_delete<std::byte[]>());
      if (bytes == size) watched = made;
      return made;
    }
    std::weak_ptr<std::byte> watched;
  };
  connect();
  const auto memory = std::make_shared<Watching>();
  client_->receive_into(memory);
  const Bytes body = pattern(size);
  announce_body({100'000, 50, {100'000}});
  announce_body({size, 51, {size}});
  send(ByteSpan(body).first(1 << 20), 50);
  send(body, 51);
  EXPECT_THAT(error(), AllOf(HasSubstr("ProtocolError"), HasSubstr("more of a body than it had announced")));
  EXPECT_EQ(undrained_endpoints(), 1u);
  EXPECT_FALSE(memory->watched.expired()) << "libfabric may still write to it";
  const auto domain = server_.endpoint->shared_domain();
  server_.endpoint.reset();
  const auto deadline = in_patience();
  while (undrained_endpoints() > 0 && Clock::now() < deadline) Endpoint::make(domain);
  EXPECT_EQ(undrained_endpoints(), 0u);
  EXPECT_TRUE(memory->watched.expired());
}

TEST_F(FabricHostileServer, SendsLessOfABodyThanAnnounced) {
  connect();
  const Bytes body = pattern(1000);
  announce_body({100'000, 50, {100'000}});
  send(body, 50);
  EXPECT_THAT(error(), AllOf(HasSubstr("ProtocolError"), HasSubstr("less of a body of 100000 bytes")));
}

TEST_F(FabricHostileServer, NeverSendsABodyAndGoes) {
  connect();
  announce_body({100'000, 50, {100'000}});
  server_.frame(FrameKind::kGoodbye, 0);
  server_.hang_up();
  EXPECT_THAT(error(), AllOf(HasSubstr("ConnectionError"), HasSubstr("in the middle of a message")));
}

TEST_F(FabricHostileServer, AnnouncesABodyWhoseMessageItHasLeftUnsent) {
  connect();
  const Bytes body = pattern(1 << 20);
  send(body, 50);
  const auto some_turns = [&](int ms) {
    const auto until = Clock::now() + std::chrono::milliseconds(ms);
    while (Clock::now() < until) {
      EXPECT_EQ(client_->receive(), std::nullopt);
      if (server_.endpoint) server_.endpoint->progress();
      wait_readable(*client_, WaitMode::kBlock, in_ns(Clock::now() + std::chrono::milliseconds(1)), nullptr);
    }
  };
  some_turns(50);  // the first packet of the message comes, which libfabric keeps
  server_.endpoint.reset();
  some_turns(50);  // libfabric loses the connection, of which nothing is told
  announce_body({1 << 20, 50, {1 << 20}});
  EXPECT_THAT(error(), AllOf(HasSubstr("ConnectionError"), HasSubstr("the endpoint beside the connection has failed"),
                             HasSubstr("receiving a body failed")));
}

TEST_F(FabricHostileServer, AnnouncesMoreBodiesThanAreTakenAtOnce) {
  connect();
  struct Counting final : BodyMemory {
    std::shared_ptr<std::byte> allocate(std::uint64_t size) override {
      ++allocations;
      return pool->allocate(size);
    }
    std::shared_ptr<BodyMemory> pool = make_body_pool();
    int allocations = 0;
  };
  const auto memory = std::make_shared<Counting>();
  client_->receive_into(memory);
  for (std::uint64_t i = 0; i < 1000; ++i) announce_body({1ull << 30, i, {1ull << 30}});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(client_->receive());
  EXPECT_LE(memory->allocations, 4);
  EXPECT_TRUE(client_->prepare_sleep()) << "nothing to do: the link is full";
  client_->wake();
}

TEST_F(FabricHostileServer, AnnouncesABodyOverTheLimit) {
  FabricOptions options;
  options.max_body = 1000;
  connect(options);
  announce_body({1001, 50, {1001}});
  EXPECT_THAT(error(),
              AllOf(HasSubstr("ProtocolError"), HasSubstr("1001 bytes"), HasSubstr("FabricOptions::max_body")));
}

TEST_F(FabricHostileServer, AnnouncesABodyThatDoesNotAddUp) {
  connect();
  announce_body({1000, 50, {600, 600}});
  EXPECT_THAT(error(), HasSubstr("ProtocolError: fabric://127.0.0.1:"));
}

TEST_F(FabricHostileServer, SendsFramesThatDoNotExist) {
  connect();
  server_.frame(static_cast<FrameKind>(10), 0);
  EXPECT_THAT(error(), HasSubstr("invalid frame: kind 10"));
}

TEST_F(FabricHostileServer, SendsAnAnnouncementThatIsTooLong) {
  connect();
  server_.frame(FrameKind::kRegion, 1, Bytes(net::kMaxAnnouncement + 8));
  EXPECT_THAT(error(), HasSubstr("sent an announcement of 16392 bytes"));
}

TEST_F(FabricHostileServer, AnnouncesARegionTwice) {
  connect();
  announce(1, {4096, 0, 9});
  announce(1, {4096, 0, 9});
  EXPECT_THAT(error(), HasSubstr("announced region 1 twice"));
}

TEST_F(FabricHostileServer, AnnouncesARegionWithoutAWord) {
  connect();
  announce(1, {4096, 0, 9});
  server_.frame(FrameKind::kRegion, 1);
  EXPECT_THAT(error(), HasSubstr("sent a malformed announcement of a region"));
}

TEST_F(FabricHostileServer, SendsLongMessagesBehindABodyThatNeverComes) {
  connect();
  announce_body({100'000, 50, {100'000}});
  const Bytes message(1 << 20);
  std::size_t taken = 0;
  while (taken < 63 && server_.frame(FrameKind::kTagged, 4, message, [&] { EXPECT_FALSE(client_->receive()); }))
    ++taken;
  EXPECT_LT(taken, 40u) << "the link is full: it isn't read";
  EXPECT_TRUE(client_->prepare_sleep());
  client_->wake();
}

TEST_F(FabricHostileServer, NamesARegionThatItHasNotAnnounced) {
  connect();
  announce(1, {4096, 0, 9});
  await_region(*client_, std::uint64_t{1} << 48);
  EXPECT_THROW(client_->peer_region(std::uint64_t{2} << 48, kPatienceMs), ProtocolError)
      << "at once: nothing may follow";
}

TEST_F(FabricHostileServer, RetiresARegionThatIsNone) {
  connect();
  server_.frame(FrameKind::kRetired, 1);
  EXPECT_THAT(error(), HasSubstr("retired region 1, which it hadn't announced"));
}

TEST_F(FabricHostileServer, AnnouncesARegionOfAnImpossibleNumber) {
  connect();
  server_.frame(FrameKind::kRegion, 65536, encode(RegionAnnouncement{4096, 0, 9}));
  EXPECT_THAT(error(), HasSubstr("a region 65536, over 65535"));
}

TEST_F(FabricHostileServer, AnnouncesAnEmptyRegion) {
  connect();
  announce(1, {0, 0, 9});
  EXPECT_THAT(error(), HasSubstr("malformed announcement of a region"));
}

TEST_F(FabricHostileServer, AnnouncesRegionsToAClientWithoutReads) {
  FabricOptions options;
  options.remote_reads = false;
  connect(options);
  EXPECT_FALSE(client_->agreement().ways.has(Way::kRead));
  announce(1, {4096, 0, 9});
  EXPECT_THAT(error(), HasSubstr("didn't agree"));
}

TEST_F(FabricHostileServer, AnnouncesAKeyThatIsGarbage) {
  connect();
  announce(1, {4096, 0, 0xBAD});
  await_region(*client_, std::uint64_t{1} << 48);
  EXPECT_THAT(read(std::uint64_t{1} << 48, 4096), HasSubstr("ProtocolError"));
  EXPECT_THROW(client_->receive(), Error) << "the endpoints have parted";
}

TEST_F(FabricHostileServer, LiesAboutTheSizeOfARegion) {
  connect();
  const auto region = frozen(pattern(100'000));
  const auto registered = RegisteredRegion::of(*region, server_.endpoint->shared_domain());
  announce(1, {1 << 20, registered->start(), registered->key()});
  const std::uint64_t base = std::uint64_t{1} << 48;
  EXPECT_EQ(await_region(*client_, base)->size, 1u << 20);
  EXPECT_EQ(read(base + 64, 100'000), "done");
  EXPECT_THAT(read(base + 64, 1 << 19), HasSubstr("ProtocolError")) << "its provider checks";
}

TEST_F(FabricHostileServer, DiesInARead) {
  connect();
  announce(1, {64 << 20, 0, 9});
  const std::uint64_t base = std::uint64_t{1} << 48;
  await_region(*client_, base);
  Bytes to(1 << 20);
  const ReadPart part{base, to.size(), to.data()};
  const auto reading = client_->read({&part, 1}, nullptr);
  server_.hang_up();
  EXPECT_THROW(while (!reading->done()){}, ConnectionError);
}

/// A server of a client that does what the test likes.
class FabricHostileClient : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
  }
  void listen(const FabricOptions& options = {}) {
    listener_ = fabric_listen("", 1, 2, options, [this](LogLevel, std::string_view line) { log_ += line; });
  }
  /// Runs the listener while `client` does its part.
  template <typename F>
  auto with(F client) {
    auto running = std::async(std::launch::async, client);
    while (running.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      if (auto connection = listener_->accept()) server_ = std::move(connection);
    }
    return running.get();
  }
  std::unique_ptr<RawEnd> connected() {
    return with([this] {
      auto client = std::make_unique<RawEnd>(address_of(*listener_));
      net::Welcome welcome;
      EXPECT_TRUE(decode(client->open(), &welcome));
      return client;
    });
  }
  /// Whether `client` reads the server's memory by its endpoint. If not, the endpoints have parted.
  bool reads(RawEnd& client, std::uint64_t address, std::uint64_t key) {
    constexpr std::size_t kSize = 4096;
    const auto to = std::make_shared<Bytes>(kSize);
    const auto reading = std::make_shared<Counted>(Operation::Kind::kRead);
    if (!client.endpoint->read(to->data(), kSize, address, key, reading)) ADD_FAILURE() << "no room";
    const auto deadline = in_patience();
    while (!reading->done && !client.endpoint->failure() && Clock::now() < deadline) {
      client.endpoint->progress();
      server_->readable();
    }
    EXPECT_EQ(reading->done, *to != Bytes(kSize));
    EXPECT_NE(reading->done, client.endpoint->failure().has_value());
    return reading->done;
  }
  std::string refusal(const Bytes& record) {
    Refused refused;
    return net::decode(record, &refused) ? refused.reason : "no refusal";
  }

  std::string log_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> server_;
};

TEST_F(FabricHostileClient, MayFollowTheRules) {
  listen();
  const auto client = connected();
  ASSERT_TRUE(server_);
  client->frame(FrameKind::kMessage, 0, as_bytes("12345678"));
  EXPECT_EQ(as_text(receive(*server_).bytes), "12345678");
}

TEST_F(FabricHostileClient, HasNoEndpoint) {
  listen();
  const Bytes answer = with([this] {
    RawEnd client(address_of(*listener_), {}, net::kCommonFeatures);
    return client.endpoint ? Bytes() : Bytes(1);
  });
  EXPECT_EQ(answer.size(), 1u) << "it was refused";
  EXPECT_FALSE(server_);
}

TEST_F(FabricHostileClient, WantsAWayThatWasNotOffered) {
  FabricOptions options;
  options.remote_reads = false;
  listen(options);
  EXPECT_THAT(refusal(with([this] {
                RawEnd client(address_of(*listener_),
                              [](net::EndpointOffer& own) { own.ways = (Way::kRead | Way::kMessage).bits(); });
                return client.record();
              })),
              HasSubstr("didn't offer"));
}

TEST_F(FabricHostileClient, HasNoPort) {
  listen();
  EXPECT_THAT(refusal(with([this] {
                RawEnd client(address_of(*listener_), [](net::EndpointOffer& own) { own.port = 0; });
                return client.record();
              })),
              HasSubstr("something else than its ENDPOINT"));
}

TEST_F(FabricHostileClient, NeverOpensItsEndpoint) {
  FabricOptions options;
  options.handshake_timeout = std::chrono::milliseconds(200);
  listen(options);
  const Bytes answer = with([this] {
    RawEnd client(address_of(*listener_));
    return client.record();
  });
  EXPECT_FALSE(server_);
  EXPECT_EQ(listener_->handshakes(), 0u);
}

TEST_F(FabricHostileClient, AnnouncesARegion) {
  listen();
  const auto client = connected();
  client->frame(FrameKind::kRegion, 1, encode(RegionAnnouncement{4096, 0, 1}));
  EXPECT_THROW(receive(*server_), ProtocolError);
}

TEST_F(FabricHostileClient, ReadsWhatItWasNotGivenAndEndsNobodyElse) {
  using Announced = const RegionAnnouncement&;
  struct Attempt {
    const char* what;
    bool after_the_end;  // of both regions
    std::function<std::uint64_t(Announced small, Announced large)> address;
    std::function<std::uint64_t(Announced small, Announced large)> key;
  };
  const auto start = [](Announced, Announced large) { return large.start; };
  const auto its_key = [](Announced, Announced large) { return large.key; };
  const Attempt attempts[] = {
      {"0", false, start, [](Announced, Announced) { return 0u; }},
      {"a key beside one that was given", false, start, [](Announced, Announced large) { return large.key ^ 1; }},
      {"bytes of one region by the key of another", false,
       [](Announced, Announced large) { return large.start + (1 << 16); },
       [](Announced small, Announced) { return small.key; }},
      {"bytes across the end", false, [](Announced, Announced large) { return large.start + large.size - 64; },
       its_key},
      {"a region that has ended", true, start, its_key},
  };
  listen();
  const auto other = with([&] { return fabric_connect(address_of(*listener_), {}, kPatienceMs, nullptr); });
  const auto serves_other = std::move(server_);
  ASSERT_TRUE(serves_other->announce(1, frozen(pattern(1 << 20, 7))));
  const std::uint64_t address = (std::uint64_t{1} << 48) + 64;
  await_region(*other, address);
  for (const Attempt& attempt : attempts) {
    SCOPED_TRACE(attempt.what);
    const auto client = connected();
    ASSERT_TRUE(server_);
    ASSERT_TRUE(server_->announce(1, frozen(pattern(1 << 13, 1))));
    ASSERT_TRUE(server_->announce(2, frozen(pattern(1 << 20, 2))));
    const RegionAnnouncement small = client->region();
    const RegionAnnouncement large = client->region();
    EXPECT_TRUE(reads(*client, small.start, small.key));
    EXPECT_TRUE(reads(*client, large.start, large.key));
    if (attempt.after_the_end) {
      ASSERT_TRUE(server_->retire(1));
      ASSERT_TRUE(server_->retire(2));
    }
    EXPECT_FALSE(reads(*client, attempt.address(small, large), attempt.key(small, large)));
    Bytes to(1 << 20);
    const ReadPart part{address, to.size(), to.data()};
    const auto reading = other->read({&part, 1}, nullptr);
    const auto deadline = in_patience();
    while (!reading->done() && Clock::now() < deadline) serves_other->receive();
    EXPECT_EQ(to, pattern(1 << 20, 7));
  }
}

TEST_F(FabricHostileServer, SharesAKeyThatEndsWithItsRegion) {
  connect();
  auto region = frozen(pattern(100'000));
  {
    const auto registered = RegisteredRegion::of(*region, server_.endpoint->shared_domain());
    announce(1, {region->size(), registered->start(), registered->key()});
  }
  await_region(*client_, std::uint64_t{1} << 48);
  EXPECT_EQ(read(std::uint64_t{1} << 48, 50'000), "done") << "the registration lives as long as its region";
  region.reset();
  EXPECT_THAT(read(std::uint64_t{1} << 48, 50'000), HasSubstr("ProtocolError"));
}

TEST_F(FabricHostileServer, ThatAnswersNoReadKeepsItsMemoryUntilItGoes) {
  connect();
  const std::size_t size = 64 << 20;
  const auto region = device::Region::make_recycled(size, "hostile");
  const auto registered = RegisteredRegion::of(*region, server_.endpoint->shared_domain());
  announce(1, {size, registered->start(), registered->key()});
  await_region(*client_, std::uint64_t{1} << 48);
  auto to = std::make_shared<Bytes>(size);
  const std::weak_ptr<const Bytes> watched = to;
  const ReadPart part{std::uint64_t{1} << 48, size, to->data()};
  client_->read({&part, 1}, std::move(to));
  client_.reset();
  EXPECT_EQ(undrained_endpoints(), 1u);
  EXPECT_FALSE(watched.expired()) << "libfabric may still write to it";
  const auto domain = server_.endpoint->shared_domain();
  server_.endpoint.reset();
  const auto deadline = in_patience();
  while (undrained_endpoints() > 0 && Clock::now() < deadline) Endpoint::make(domain);
  EXPECT_EQ(undrained_endpoints(), 0u);
  EXPECT_TRUE(watched.expired());
}

TEST_F(FabricHostileServer, MayLeaveBeforeItsEndpointIsConnected) {
  const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const auto here = loopback_socket();
  const auto domain = FabricDomains({}, FabricOptions{}.provider).beside(here.get());
  const auto before = descriptors();
  for (int bytes : {0, 3}) {
    EndpointPtr endpoint = Endpoint::make(domain);
    endpoint->await_opening(1);
    const SocketAddress address = with_port(local_address(here.get()), endpoint->port());
    UniqueFd peer = loopback_socket();
    ASSERT_EQ(::connect(peer.get(), address.get(), address.size), 0);
    const auto unconnected = descriptors();
    const auto deadline = in_patience();
    while (descriptors() == unconnected && Clock::now() < deadline) endpoint->progress();
    ASSERT_GT(descriptors(), unconnected) << "libfabric has accepted it";
    ASSERT_EQ(::send(peer.get(), "hey", static_cast<std::size_t>(bytes), 0), bytes);
    peer.reset();
    endpoint.reset();
    EXPECT_EQ(descriptors(), before);
  }
}

}  // namespace
}  // namespace crossdock::transport::fabric_test
