// What becomes of bodies and reads that are under way when an end closes.
#include <atomic>
#include <thread>

#include "support.h"
#include "support/failing_allocations.h"

namespace crossdock::transport::fabric_test {
namespace {

class FabricClosing : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
  }
  static constexpr std::size_t kLong = 4 << 20;
};

/// Begins to send a body, of which the peer hasn't received all. Returns what tells that it is kept.
std::weak_ptr<const Bytes> begin_body(Connection& from, Connection& to, std::size_t size) {
  auto body = std::make_shared<const Bytes>(pattern(size));
  const std::weak_ptr<const Bytes> watched = body;
  const std::vector<ByteSpan> parts = {*body};
  send_body(from, to, 1, parts, std::move(body));
  return watched;
}

TEST_F(FabricClosing, ABodyArrivesWholeAfterItsSenderHasClosed) {
  for (const bool server_sends : {true, false}) {
    Pair ends;
    std::unique_ptr<Connection>& from = server_sends ? ends.server : ends.client;
    std::unique_ptr<Connection>& to = server_sends ? ends.client : ends.server;
    const std::weak_ptr<const Bytes> watched = begin_body(*from, *to, kLong);
    auto closing = std::async(std::launch::async, [&] { from.reset(); });  // there is no listener to do its work
    const Incoming message = receive(*to);
    EXPECT_TRUE(std::ranges::equal(message.bytes, pattern(kLong)));
    EXPECT_THROW(receive(*to), ConnectionError);
    closing.get();
    EXPECT_TRUE(watched.expired());
  }
}

/// A listener that a thread of its own serves.
class ServedListener {
 public:
  ServedListener() : listener_(fabric_listen("", 1, 2, {}, nullptr)) {}
  ~ServedListener() { stop(); }
  ServedListener(const ServedListener&) = delete;
  ServedListener& operator=(const ServedListener&) = delete;

  /// Both ends of a connection.
  struct Ends {
    std::unique_ptr<Connection> server;
    std::unique_ptr<Connection> client;
  };
  Ends connect() {
    auto connecting = std::async(std::launch::async,
                                 [&] { return fabric_connect(address_of(*listener_), {}, kPatienceMs, nullptr, {}); });
    Ends ends;
    ends.server = accept_one(*listener_);
    ends.client = connecting.get();
    return ends;
  }
  /// From now on, nobody else may use it.
  void start() {
    thread_ = std::thread([this] {
      while (!stopped_) {
        pollfd ask{listener_->descriptor(), POLLIN, 0};
        ::poll(&ask, 1, 10);
        listener_->accept();
      }
    });
  }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::unique_ptr<Listener> listener_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

TEST_F(FabricClosing, TheListenerSendsWhatIsLeft) {
  ServedListener served;
  auto ends = served.connect();
  const std::weak_ptr<const Bytes> watched = begin_body(*ends.server, *ends.client, kLong);
  ends.server.reset();
  EXPECT_FALSE(watched.expired()) << "it didn't wait";
  served.start();
  const Incoming message = receive(*ends.client);
  EXPECT_TRUE(std::ranges::equal(message.bytes, pattern(kLong)));
  EXPECT_THROW(receive(*ends.client), ConnectionError);
  const auto deadline = in_patience();
  while (!watched.expired() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(watched.expired());
}

TEST_F(FabricClosing, APeerThatTakesNothingIsWaitedForASecond) {
  ServedListener served;
  auto ends = served.connect();
  const std::weak_ptr<const Bytes> watched = begin_body(*ends.server, *ends.client, kLong);
  const auto before = Clock::now();
  ends.server.reset();
  served.start();
  const auto deadline = in_patience();
  while (!watched.expired() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(watched.expired());
  EXPECT_GE(Clock::now() - before, std::chrono::milliseconds(900));
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(10));
  EXPECT_THROW(receive(*ends.client), ConnectionError);
}

TEST_F(FabricClosing, ReadsGoOnUntilThePeerCloses) {
  ServedListener served;
  auto ends = served.connect();
  constexpr std::size_t kUnused = 64;  // at the beginning of a region
  std::shared_ptr<const device::Region> region = frozen(pattern(1 << 20));
  const std::weak_ptr<const device::Region> watched = region;
  ASSERT_TRUE(ends.server->announce(1, region));
  region.reset();
  const std::uint64_t base = (std::uint64_t{1} << 48) + kUnused;
  await_region(*ends.client, base);
  ends.server.reset();
  served.start();
  Bytes to(1 << 20);
  const ReadPart part{base, to.size(), to.data()};
  const auto reading = ends.client->read({&part, 1}, nullptr);
  const auto deadline = in_patience();
  while (!reading->done() && Clock::now() < deadline) ends.client->receive();
  EXPECT_EQ(to, pattern(1 << 20));
  const auto before = Clock::now();
  ends.client.reset();
  while (!watched.expired() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(watched.expired());
  EXPECT_LT(Clock::now() - before, std::chrono::milliseconds(900)) << "nobody is left to wait for";
}

TEST_F(FabricClosing, AnIdleEndClosesAtOnce) {
  ServedListener served;
  auto ends = served.connect();
  const auto before = Clock::now();
  ends.server.reset();
  EXPECT_THROW(receive(*ends.client), ConnectionError);
  EXPECT_LT(Clock::now() - before, std::chrono::milliseconds(900));
}

TEST_F(FabricClosing, AListenerThatClosesWaitsForAllTogether) {
  auto served = std::make_unique<ServedListener>();
  std::vector<ServedListener::Ends> all;
  std::vector<std::weak_ptr<const Bytes>> watched;
  for (int i = 0; i < 3; ++i) {
    all.push_back(served->connect());
    watched.push_back(begin_body(*all.back().server, *all.back().client, kLong));
  }
  for (auto& ends : all) ends.server.reset();
  const auto before = Clock::now();
  served.reset();
  EXPECT_LT(Clock::now() - before, std::chrono::milliseconds(2500));
  for (const auto& one : watched) EXPECT_TRUE(one.expired());
}

/// Whether some socket of this machine listens at 127.0.0.1 at this port.
bool somebody_listens(std::uint16_t port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;  // connections of the port don't count
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0;
}

/// Tells what it finds of its endpoint when it is destroyed.
struct LastLook final : Operation {
  LastLook(std::uint16_t its_port, std::optional<bool>* to) : Operation(Kind::kSend), port(its_port), open(to) {}
  ~LastLook() override { *open = somebody_listens(port); }
  void on_done(std::size_t) noexcept override {}
  const std::uint16_t port;
  std::optional<bool>* const open;
};

TEST_F(FabricClosing, OperationsOutliveTheirEndpoint) {
  const auto listener = fabric_listen("", 1, 2, {}, nullptr);
  auto connecting = std::async(std::launch::async, [&] {
    auto client = std::make_unique<RawEnd>(address_of(*listener));
    client->open();
    return client;
  });
  const auto server = accept_one(*listener);
  const auto client = connecting.get();
  const Bytes body = pattern(kLong);
  std::optional<bool> open;
  const std::uint16_t port = client->endpoint->port();
  ASSERT_TRUE(somebody_listens(port));
  const iovec part{const_cast<std::byte*>(body.data()), body.size()};
  // Nobody receives a message with this tag.
  ASSERT_TRUE(client->endpoint->send({&part, 1}, 1234, std::make_shared<LastLook>(port, &open)));
  client->hang_up();
  client->endpoint.reset();
  ASSERT_TRUE(open.has_value());
  EXPECT_FALSE(*open) << "the provider may use an operation until its endpoint is closed";
}

TEST_F(FabricClosing, NeedsNoMemory) {
  for (int i = 0; i < 8; ++i) {
    Pair ends;
    constexpr std::size_t kUnused = 64;  // at the beginning of a region
    ASSERT_TRUE(ends.server->announce(1, frozen(pattern(1 << 20))));
    const std::uint64_t base = (std::uint64_t{1} << 48) + kUnused;
    await_region(*ends.client, base);
    const auto to = std::make_shared<Bytes>(1 << 20);
    const ReadPart part{base, to->size(), to->data()};
    const auto reading = ends.client->read({&part, 1}, to);
    const std::weak_ptr<const Bytes> watched = begin_body(*ends.server, *ends.client, kLong);
    {
      const testing::FailingAllocations none(testing::Whose::kMine, i / 2, INT64_MAX);
      (i % 2 == 0 ? ends.client : ends.server).reset();
    }
    if (i % 2 == 0) {
      EXPECT_ANY_THROW(reading->done());
    } else {
      EXPECT_TRUE(watched.expired());
    }
  }
}

}  // namespace
}  // namespace crossdock::transport::fabric_test
