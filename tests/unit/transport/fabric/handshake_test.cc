// Connecting: options, tokens, ways, and ends that don't fit each other.
#include <filesystem>
#include <fstream>

#include "support.h"
#include "transport/tcp.h"

namespace crossdock::transport::fabric_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class FabricHandshake : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
  }
  /// Runs the listener until `connecting` has ended.
  template <typename T>
  static std::unique_ptr<Connection> run(Listener& listener, std::future<T>& connecting) {
    std::unique_ptr<Connection> server;
    while (connecting.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      if (auto connection = listener.accept()) server = std::move(connection);
    }
    return server;
  }
  template <typename E, typename F>
  static void expect_error(F call, const std::string& says) {
    try {
      call();
      FAIL() << "no error";
    } catch (const E& error) {
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  }
};

TEST_F(FabricHandshake, SaysWhatWasAgreed) {
  const Pair ends({}, {}, ConnectOptions{.wants_parts = true});
  for (const Connection* end : {ends.server.get(), ends.client.get()}) {
    EXPECT_EQ(end->agreement().carrier, "fabric (tcp;ofi_rxm)");
    EXPECT_EQ(end->agreement().ways, Way::kRead | Way::kMessage);
    EXPECT_TRUE(end->agreement().wants_parts);
    EXPECT_FALSE(end->agreement().one_sided) << "this provider needs calls at both ends";
    EXPECT_FALSE(end->agreement().checksums);
    EXPECT_FALSE(end->agreement().same_user);
    EXPECT_THAT(end->agreement().peer, StartsWith("fabric://127.0.0.1:"));
    EXPECT_EQ(end->agreement().want_data, 1u);
  }
}

TEST_F(FabricHandshake, AWrongTokenIsRefused) {
  FabricOptions right;
  right.token = "a long secret";
  FabricOptions wrong;
  wrong.token = "another one";
  const auto listener = fabric_listen("", 1, 2, right, nullptr);
  for (const FabricOptions& options : {wrong, FabricOptions{}}) {
    auto connecting = std::async(std::launch::async, [&] {
      expect_error<PermissionError>([&] { fabric_connect(address_of(*listener), options, kPatienceMs, nullptr); },
                                    "token");
    });
    EXPECT_FALSE(run(*listener, connecting));
    connecting.get();
  }
}

TEST_F(FabricHandshake, EveryAddressOfTheMachineMayListen) {
  FabricOptions options;
  options.advertised_host = "127.0.0.1";
  const auto listener = fabric_listen("//*:0", 1, 2, options, nullptr);
  EXPECT_THAT(listener->uri(), StartsWith("fabric://127.0.0.1:"));
  auto connecting =
      std::async(std::launch::async, [&] { return fabric_connect(address_of(*listener), {}, kPatienceMs, nullptr); });
  EXPECT_TRUE(run(*listener, connecting));
  EXPECT_TRUE(connecting.get());
}

TEST_F(FabricHandshake, EndsOfTcpAreToldApart) {
  const auto fabric = fabric_listen("", 1, 2, {}, nullptr);
  auto connecting = std::async(std::launch::async, [&] {
    expect_error<HandshakeError>([&] { tcp_connect(address_of(*fabric), {}, kPatienceMs, nullptr); },
                                 "this is a server of fabric:");
  });
  run(*fabric, connecting);
  connecting.get();
  const auto tcp = tcp_listen("", 1, 2, {}, nullptr);
  connecting = std::async(std::launch::async, [&] {
    expect_error<HandshakeError>([&] { fabric_connect(tcp->uri().substr(4), {}, kPatienceMs, nullptr); },
                                 "it is a server of tcp:");
  });
  run(*tcp, connecting);
  connecting.get();
}

TEST_F(FabricHandshake, TheProvidersMustBeTheSame) {
  RawEnd server;
  auto connecting = std::async(std::launch::async, [&] {
    expect_error<HandshakeError>([&] { fabric_connect(server.address(), {}, kPatienceMs, nullptr); },
                                 "an endpoint of libfabric's provider \"verbs;ofi_rxm\", and this client one of");
  });
  server.offer(Way::kMessage, [](net::EndpointOffer& own) { own.provider = "verbs;ofi_rxm"; });
  connecting.get();
}

TEST_F(FabricHandshake, AnEndpointThatCantBeReachedIsNamed) {
  RawEnd server;
  std::uint16_t port = 0;
  {
    const UniqueFd closed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(closed.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    port = port_of(local_address(closed.get()));
  }
  auto connecting = std::async(std::launch::async, [&]() -> std::string {
    try {
      fabric_connect(server.address(), {}, 1000, nullptr);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  });
  server.offer(Way::kMessage, [&](net::EndpointOffer& own) { own.port = port; });
  EXPECT_THAT(connecting.get(), HasSubstr("endpoint of libfabric at port " + std::to_string(port)));
}

TEST_F(FabricHandshake, CanBeInterrupted) {
  RawEnd server;  // which never answers
  EXPECT_THROW(fabric_connect(server.address(), {}, kPatienceMs, [] { return true; }), InterruptedError);
  EXPECT_THROW(fabric_connect(server.address(), {}, 200, nullptr), TimeoutError);
}

TEST_F(FabricHandshake, AServerThatIsFullSaysSo) {
  const auto listener = fabric_listen("", 1, 2, {}, nullptr);
  listener->reject_all(true);
  auto connecting = std::async(std::launch::async, [&] {
    expect_error<ConnectionError>([&] { fabric_connect(address_of(*listener), {}, kPatienceMs, nullptr); },
                                  "max_connections");
  });
  EXPECT_FALSE(run(*listener, connecting));
  connecting.get();
}

TEST_F(FabricHandshake, OptionsThatCantWorkAreRefused) {
  const auto refused = [](const std::function<void(FabricOptions&)>& change) {
    FabricOptions options;
    change(options);
    EXPECT_THROW(make_fabric_transport(options), InvalidArgumentError);
  };
  refused([](FabricOptions& o) { o.max_message = 0; });
  refused([](FabricOptions& o) { o.max_request = 0; });
  refused([](FabricOptions& o) { o.max_body = UINT64_MAX; });
  refused([](FabricOptions& o) { o.handshake_timeout = std::chrono::milliseconds(0); });
  refused([](FabricOptions& o) { o.keepalive = std::chrono::seconds(-1); });
  refused([](FabricOptions& o) { o.user_timeout = std::chrono::milliseconds(-1); });
  refused([](FabricOptions& o) { o.token.assign(1025, 'x'); });
}

TEST_F(FabricHandshake, ManyConnectionsTakeFewDescriptorsAndLittleMemory) {
  const auto transport = make_fabric_transport();
  const auto listener = transport->listen("", 1, 2, nullptr);
  std::vector<std::unique_ptr<Connection>> ends;
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    std::size_t all = 0;
    std::size_t pages = 0;
    statm >> all >> pages;
    return pages * 4096;
  };
  const auto connect = [&] {
    auto connecting = std::async(std::launch::async,
                                 [&] { return transport->connect(address_of(*listener), {}, kPatienceMs, nullptr); });
    ends.push_back(run(*listener, connecting));
    ends.push_back(connecting.get());
    ASSERT_TRUE(ends[ends.size() - 2]);
  };
  connect();
  const std::size_t before = resident();
  const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const auto descriptors_before = descriptors();
  constexpr int kMore = 8;
  for (int i = 0; i < kMore; ++i) connect();
  EXPECT_LE(descriptors() - descriptors_before, 2 * kMore * 16);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They have memory of their own for each byte.
  EXPECT_LE(resident(), before + 2 * kMore * (std::size_t{8} << 20));
#endif
}

}  // namespace
}  // namespace crossdock::transport::fabric_test
