// Peers that take as much as they can: of memory, mappings, connections and time.
#include <gmock/gmock.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <vector>

#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "dissociated/uri.h"
#include "peers/link.h"
#include "support/leftovers.h"
#include "support/peer_links.h"
#include "transport/shm.h"

namespace crossdock::peers {
namespace {

using namespace std::chrono_literals;

using ::testing::HasSubstr;
using testing::peer_connections;
using testing::PeerHub;
using transport::Way;
using Bytes = std::vector<std::byte>;

wire::Open opening() {
  return {.window_messages = 4,
          .max_frames = 1000,
          .window_bytes = 1 << 20,
          .max_body = 1 << 20,
          .max_regions = 10,
          .software = "9"};
}

/// A link on this thread, whose peer is the test.
class GreedyPeer : public testing::NoLeftovers {
 protected:
  void begin(const PeerOptions& options, const wire::Open& open = opening(), bool same_user = true) {
    transport::Agreement agreement;
    agreement.role = ChannelRole::kMessages;
    agreement.peer = "the other end";
    agreement.same_user = same_user;
    auto [here, there] = transport::memory_pair(agreement, {.queue_messages = 1000, .ways = Way::kMap | Way::kMessage});
    link_ = hub_->link(std::move(here), options);
    there_ = std::move(there);
    there_->send(wire::encode(open), {});
    turn();
    ASSERT_TRUE(link_->open());
  }
  void SetUp() override {
    testing::NoLeftovers::SetUp();
    hub_.emplace();
  }
  void TearDown() override {
    link_.reset();
    there_.reset();
    hub_.reset();
    testing::NoLeftovers::TearDown();
  }
  void turn() {
    hub_->run_copies();
    while (link_->turn()) hub_->run_copies();
  }
  /// Turns as the hub does, until the link has ended.
  void turn_until_over() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!link_->over() && std::chrono::steady_clock::now() < end) turn();
    ASSERT_TRUE(link_->over()) << "its user has ended it, and its peer doesn't answer";
  }
  void send_body(const Bytes& body) {
    ASSERT_TRUE(there_->send_body(wire::kMessageTag, std::array{ByteSpan(body)}, nullptr));
  }
  /// Announces memory of the test, and returns the peer's address of it.
  std::uint64_t announce(std::uint16_t number) {
    const auto memory = hub_->pool->allocate(10'000);
    return *there_->announce(number, hub_->pool->lend(memory.get(), 10'000)->region);
  }
  void expect_broken(const char* text) {
    turn();
    ASSERT_TRUE(link_->over());
    try {
      link_->try_recv();
      FAIL() << "it has not ended";
    } catch (const ProtocolError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
  void send(std::size_t bytes) {
    auto owner = std::make_shared<Bytes>(bytes);
    link_->send(std::array{OutgoingFrame{owner->data(), owner->size(), owner}}, {}, [](const std::exception_ptr&) {});
    turn();
  }

  std::optional<PeerHub> hub_;
  std::shared_ptr<Link> link_;
  std::unique_ptr<transport::Connection> there_;
};

TEST_F(GreedyPeer, OfAnotherUserSendsNoFramesByAddress) {
  begin({}, opening(), false);
  const std::uint64_t base = announce(0);
  send_body(wire::encode_start(std::vector<wire::FrameEntry>{{100, base, 0}}, {}));
  expect_broken("doesn't take");
}

TEST_F(GreedyPeer, NamesAFrameByTheNumberOfAnotherRegion) {
  begin({});
  const std::uint64_t base = announce(3);
  send_body(wire::encode_start(std::vector<wire::FrameEntry>{{100, base, 3}}, {}));
  turn();
  EXPECT_TRUE(link_->try_recv());
  send_body(wire::encode_start(std::vector<wire::FrameEntry>{{100, base, 70'000}}, {}));
  expect_broken("names region 70000, but is in region 3");
}

TEST_F(GreedyPeer, ThatReleasesNothingIsLentSoMuchAndNoMore) {
  PeerOptions options;
  options.lease_limit = 150'000;
  begin(options);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    send(100'000);
    there_->send(wire::encode(wire::Return{i, 0, {}}), {});
    turn();
  }
  EXPECT_EQ(link_->stats().sent, 3u);
  EXPECT_EQ(link_->stats().frames_by_address, 1u);
  EXPECT_EQ(link_->stats().bytes_by_value, 200'000u);
  there_->send(wire::encode(wire::Return{3, 0, {{0, 1}}}), {});
  turn();
  send(200'000);
  EXPECT_EQ(link_->stats().frames_by_address, 2u) << "larger than the limit, but alone";
}

TEST_F(GreedyPeer, SendsMoreFramesAheadThanTheWindowAllows) {
  PeerOptions options;
  options.window_bytes = 10'000;
  begin(options);
  const Bytes body = wire::encode_start(std::vector<wire::FrameEntry>(100), {});
  ASSERT_LT(body.size(), 2'500u) << "the bodies alone would fit";
  send_body(body);
  send_body(body);
  turn();
  EXPECT_TRUE(link_->try_recv()) << "one message may always be sent";
  expect_broken("ahead");
}

TEST_F(GreedyPeer, IsSentNoMoreFramesThanItsWindowAllows) {
  wire::Open open = opening();
  open.window_bytes = 10'000;
  begin({}, open);
  const std::vector<OutgoingFrame> frames(100);
  for (int i = 0; i < 2; ++i) link_->send(frames, {}, nullptr);
  turn();
  EXPECT_EQ(link_->stats().sent, 1u);
  there_->send(wire::encode(wire::Return{1, wire::cost_of(2'416, 100), {}}), {});
  turn();
  EXPECT_EQ(link_->stats().sent, 2u);
}

TEST_F(GreedyPeer, ReleasesAreToldOncePerRegionInAnyOrder) {
  begin({});
  std::vector<wire::FrameEntry> entries;
  for (std::uint16_t number = 0; number < 5; ++number) {
    const std::uint64_t base = announce(number);
    for (int i = 0; i < 3; ++i) entries.push_back({100, base, number});
  }
  send_body(wire::encode_start(entries, {}));
  turn();
  std::optional<Message> message = link_->try_recv();
  ASSERT_TRUE(message);
  EXPECT_EQ(link_->stats().regions_of_peer, 5u);
  std::vector<Frame> frames = message->frames();
  message.reset();
  std::vector<std::uint32_t> released(5);
  while (!frames.empty()) {
    std::swap(frames[frames.size() / 2], frames.back());
    frames.pop_back();
    if (frames.size() % 4 == 0) turn();
  }
  EXPECT_EQ(link_->stats().regions_of_peer, 0u);
  while (const auto incoming = there_->receive()) {
    if (wire::control_of(incoming->bytes) != wire::Control::kReturn) continue;
    for (const wire::Released& told : wire::decode_return(incoming->bytes).released)
      released[told.region] += told.frames;
  }
  EXPECT_THAT(released, ::testing::Each(3u));
}

TEST_F(GreedyPeer, DoesNotAnswerAnAbort) {
  PeerOptions options;
  options.timeout = std::chrono::milliseconds(30);
  begin(options);
  send(100'000);
  ASSERT_EQ(link_->stats().regions_with_peer, 1u);
  link_->abort();
  turn_until_over();
  link_->forget();
  EXPECT_EQ(hub_->pool->stats().lent_bytes, 0u);
  EXPECT_THROW(while (there_->receive()){}, ConnectionError) << "the connection is closed";
}

TEST_F(GreedyPeer, TakesNothingOfAnEndThatCloses) {
  PeerOptions options;
  options.timeout = std::chrono::milliseconds(30);
  wire::Open open = opening();
  open.window_messages = 1;
  begin(options, open);
  for (int i = 0; i < 3; ++i) send(100);
  std::exception_ptr failure;
  bool closed = false;
  link_->close([&](const std::exception_ptr& error) {
    failure = error;
    closed = true;
  });
  turn();
  EXPECT_FALSE(closed);
  turn_until_over();
  EXPECT_TRUE(closed);
  ASSERT_TRUE(failure) << "messages were lost";
  EXPECT_THROW(std::rethrow_exception(failure), TimeoutError);
}

TEST_F(GreedyPeer, ThatHasSaidEndMayHoldItsFrames) {
  PeerOptions options;
  options.timeout = std::chrono::milliseconds(1);
  begin(options);
  send(100'000);
  there_->send(wire::encode(wire::End::kClosed), {});
  turn();
  link_->close(nullptr);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < until) turn();
  EXPECT_FALSE(link_->over());
  there_->send(wire::encode(wire::Return{1, 0, {{0, 1}}}), {});
  turn();
  EXPECT_TRUE(link_->over());
}

/// A connection that only counts regions.
class CountingConnection : public transport::Connection {
 public:
  const transport::Agreement& agreement() const noexcept override { return agreement_; }
  bool send(ByteSpan, ByteSpan) override { return true; }
  bool send_tagged(std::uint64_t, ByteSpan, ByteSpan) override { return true; }
  std::uint64_t max_message() const noexcept override { return 1 << 20; }
  bool send_body(std::uint64_t, std::span<const ByteSpan>, std::shared_ptr<const void>) override { return true; }
  std::uint64_t max_body() const noexcept override { return 1 << 20; }
  std::size_t in_flight() override { return 0; }
  bool below_window(std::size_t) override { return true; }
  std::optional<std::uint64_t> announce(std::uint16_t, const std::shared_ptr<const device::Region>&) override {
    ++announced;
    return 4096;
  }
  bool retire(std::uint16_t) override { return true; }
  std::optional<transport::Incoming> receive() override { return std::nullopt; }
  void receive_into(std::shared_ptr<transport::BodyMemory>) override {}
  bool prepare_sleep() override { return true; }
  void wake() override {}
  int descriptor() const noexcept override { return -1; }

  int announced = 0;

 private:
  transport::Agreement agreement_;
};

/// The system refuses to pass a descriptor, because other processes don't receive theirs.
class RefusedConnection final : public CountingConnection {
  std::optional<std::uint64_t> announce(std::uint16_t, const std::shared_ptr<const device::Region>&) override {
    throw ResourceError("too many descriptors wait");
  }
};

TEST(PeersRegions, OfMessagesThatWereNotSentAreNoMoreThanThePeerTakes) {
  const auto pool = session::Runtime::default_runtime()->make_pool();
  CountingConnection connection;
  RegionsWithPeer regions(1 << 30);
  RegionsWithPeer::Place place;
  constexpr std::uint32_t kMost = 3;
  const auto place_and_retire = [&](std::uint64_t sent) {
    const auto memory = pool->allocate(10'000);
    const SharedFrame frame{pool->lend(memory.get(), 10'000)->region, 0, nullptr};
    const auto outcome = regions.place(connection, frame, kMost, &place);
    if (outcome == RegionsWithPeer::Outcome::kPlaced) {
      regions.released({place.region, 1});
      EXPECT_TRUE(regions.retire(connection, sent));
    }
    EXPECT_EQ(regions.size(), 0u);
    return outcome;
  };
  for (int i = 0; i < 100; ++i) place_and_retire(7);
  EXPECT_EQ(connection.announced, 2 * int{kMost}) << "the peer may have read no retirement";
  regions.peer_took(7);
  EXPECT_EQ(place_and_retire(8), RegionsWithPeer::Outcome::kByValue) << "it was sent before they were retired";
  regions.peer_took(8);
  for (int i = 0; i < 100; ++i) place_and_retire(8);
  EXPECT_EQ(connection.announced, 4 * int{kMost});
}

TEST(PeersRegions, GoByValueWhereTheSystemRefusesToPassThem) {
  const auto pool = session::Runtime::default_runtime()->make_pool();
  const auto memory = pool->allocate(10'000);
  const SharedFrame frame{pool->lend(memory.get(), 10'000)->region, 0, nullptr};
  RefusedConnection connection;
  RegionsWithPeer regions(1 << 20);
  RegionsWithPeer::Place place;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(regions.place(connection, frame, 10, &place), RegionsWithPeer::Outcome::kByValue);
    EXPECT_EQ(regions.size(), 0u);
  }
}

// --- with a hub's thread ---

/// The connection of a hostile process to a listener of the hub.
std::unique_ptr<transport::Connection> connect_raw(const PeerListener& listener) {
  return transport::shm_connect(
      dissociated::parse_uri(listener.uri()).address, {}, 10'000, nullptr,
      {.role = ChannelRole::kMessages, .ways = Way::kMap | Way::kMessage, .keeps_descriptors = true});
}

class GreedyProcess : public testing::NoLeftovers {};

TEST_F(GreedyProcess, SendsTheSameBytesInManyFrames) {
  Hub hub;
  const auto listener = hub.listen({"shm:"});
  const auto raw = connect_raw(*listener);
  raw->send(wire::encode(opening()), {});
  const auto peer = listener->accept(10s);
  const auto pool = session::Runtime::default_runtime()->make_pool();
  const auto memory = pool->allocate(4096);
  const std::uint64_t base = raw->announce(1, pool->lend(memory.get(), 4096)->region).value();
  for (const std::size_t count : {200, 300}) {
    const Bytes body = wire::encode_start(std::vector<wire::FrameEntry>(count, {100, base, 1}), {});
    ASSERT_TRUE(raw->send_body(wire::kMessageTag, std::array{ByteSpan(body)}, nullptr));
    Message message = peer->recv(10s);
    const std::byte* const data = message.frames()[0].data;
    if (count == 200) {
      message.make_writable();
      for (const Frame& frame : message.frames()) EXPECT_NE(frame.writable, nullptr);
    } else {
      EXPECT_THROW(message.make_writable(), ResourceError);
      for (const Frame& frame : message.frames()) {
        EXPECT_EQ(frame.writable, nullptr);
        EXPECT_EQ(frame.data, data);
      }
    }
  }
}

TEST_F(GreedyProcess, AnnouncesMoreRegionsThanTheHubTakes) {
  Hub hub;
  PeerOptions options;
  options.max_regions = 4;
  const auto listener = hub.listen({"shm:"}, options);
  const auto raw = connect_raw(*listener);
  raw->send(wire::encode(opening()), {});
  const auto peer = listener->accept(10s);
  const auto pool = session::Runtime::default_runtime()->make_pool();
  std::vector<std::shared_ptr<std::byte>> memory;
  for (std::uint16_t number = 0; number < 9; ++number) {
    memory.push_back(pool->allocate(4096));
    ASSERT_TRUE(raw->announce(number, pool->lend(memory.back().get(), 4096)->region));
  }
  try {
    peer->recv(10s);
    FAIL();
  } catch (const ProtocolError& error) {
    EXPECT_THAT(error.what(), HasSubstr("in 8 regions"));
  }
}

std::chrono::nanoseconds processor_time() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

TEST_F(GreedyProcess, NamesARegionLateAndKeepsNobodyBusy) {
  Hub hub;
  const auto listener = hub.listen({"shm:"});
  const auto raw = connect_raw(*listener);
  raw->send(wire::encode(opening()), {});
  const auto peer = listener->accept(10s);
  const std::uint64_t address = device::make_address(7, 64);
  const Bytes first = wire::encode_start(std::vector<wire::FrameEntry>{{100, address, 7}}, {});
  const Bytes second = wire::encode_start({}, as_bytes("second"));
  for (const Bytes* const body : {&first, &second}) {
    ASSERT_TRUE(raw->send_body(wire::kMessageTag, std::array{ByteSpan(*body)}, nullptr));
  }
  const auto before = processor_time();
  EXPECT_THROW(peer->recv(500ms), TimeoutError);
  EXPECT_LT(processor_time() - before, std::chrono::milliseconds(250));
  const auto pool = session::Runtime::default_runtime()->make_pool();
  const auto memory = pool->allocate(4096);
  ASSERT_TRUE(raw->announce(7, pool->lend(memory.get(), 4096)->region));
  EXPECT_EQ(peer->recv(10s).frames().size(), 1u);
  EXPECT_EQ(as_text(peer->recv(10s).meta()), "second");
}

TEST_F(GreedyProcess, ConnectsMoreOftenThanTheListenerAllows) {
  Hub there;
  Hub here;
  PeerOptions options;
  options.max_connections = 3;
  const auto listener = there.listen({"shm:", "tcp:"}, options);
  std::vector<std::unique_ptr<Peer>> peers;
  for (const std::size_t uri : {0, 1, 0}) peers.push_back(here.connect(listener->uris()[uri]));
  for (const std::string& uri : listener->uris()) {
    try {
      here.connect(uri);
      FAIL();
    } catch (const ConnectionError& error) {
      EXPECT_THAT(error.what(), HasSubstr("limit of connections"));
    }
  }
  for (int i = 0; i < 3; ++i) {
    std::promise<void> closed;
    const auto accepted = listener->accept(10s);
    accepted->close([&](const std::exception_ptr&) { closed.set_value(); });
    closed.get_future().wait();
  }
  for (;;) {  // until the connections are closed
    try {
      here.connect(listener->uris()[0]);
      break;
    } catch (const ConnectionError&) {
    }
  }
  options.max_connections = 0;
  EXPECT_THROW(there.listen({"shm:"}, options), InvalidArgumentError);
}

TEST_F(GreedyProcess, ConnectsFasterThanItIsAccepted) {
  Hub there;
  Hub here;
  const auto listener = there.listen({"shm:"});
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 128; ++i) peers.push_back(here.connect(listener->uris()[0]));
  PeerOptions impatient;
  impatient.timeout = std::chrono::milliseconds(200);
  const auto all_wait = [&] {  // the last of the 128 may not have been opened there
    for (int i = 0; i < 20; ++i) {
      try {
        peers.push_back(here.connect(listener->uris()[0], impatient));
      } catch (const TimeoutError&) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(all_wait());
  std::vector<std::unique_ptr<Peer>> accepted;
  auto waiting = std::async(std::launch::async, [&] { return here.connect(listener->uris()[0]); });
  while (accepted.size() < peers.size()) accepted.push_back(listener->accept(10s));
  EXPECT_NE(waiting.get(), nullptr);
}

}  // namespace
}  // namespace crossdock::peers
