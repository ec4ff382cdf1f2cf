#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "device/region_address.h"
#include "dissociated/uri.h"
#include "dissociated/wire.h"
#include "fake_server.h"
#include "ipc/compression.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/polled.h"
#include "support/process.h"
#include "transport/memory.h"
#include "transport/shm.h"
#include "transport/shm/packets.h"
#include "transport/shm/ring_memory.h"
#include "transport/shm/socket.h"
#include "transport/shm/socket_path.h"
#include "transport/tcp.h"
#include "unit/session/support.h"

/// Peers that speak the transport's protocol well and what goes over it badly. What they can do to the transport itself
/// is tested there.
namespace crossdock::session {
namespace {

using dissociated::MessageType;
using dissociated::RemoteBuffer;
using testing::endless_stream;
using testing::FunctionStream;
using ::testing::HasSubstr;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;
using testing::open_descriptors;

class HostileTest : public testing::NoLeftovers {};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// --- clients ---

// Reads to the end of the stream and releases nothing. Returns its last message.
std::vector<std::byte> take_stream(transport::Connection& connection) {
  for (;;) {
    const transport::Incoming message = wait_for_message(connection);
    if (message.tagged) continue;
    if (dissociated::read_prefix(message.bytes).type != MessageType::kMetadata) {
      return {message.bytes.begin(), message.bytes.end()};
    }
  }
}

TEST_F(HostileTest, AClientThatBreaksTheProtocolLosesItsConnectionAndNobodyElseDoes) {
  Server server;
  server.publish("table", Source::table(number_stream(200, 100)));
  server.publish("live", Source::factory(endless_stream));
  Client client(server.uri());
  const auto reader = client.get("live");
  using Misdeed = std::function<void(transport::Connection&)>;
  const std::uint64_t never_lent = device::make_address(3, 4096);
  const std::vector<Misdeed> misdeeds = {
      [](auto& c) { c.send(as_bytes("an untagged message"), {}); },
      [](auto& c) { c.send_tagged(c.agreement().want_data ^ *c.agreement().free_data ^ 1, as_bytes("x"), {}); },
      [](auto& c) { c.send_tagged(*c.agreement().free_data, as_bytes("seven b"), {}); },
      [&](auto& c) { c.send_tagged(*c.agreement().free_data, std::as_bytes(std::span(&never_lent, 1)), {}); },
      [](auto& c) {
        ask(c, "live");
        ask(c, "live");
      },
      [](auto& c) {  // frees what it has, twice
        ask(c, "table");
        transport::Incoming message = wait_for_message(c);
        while (!message.tagged) message = wait_for_message(c);
        std::vector<RemoteBuffer> buffers;
        dissociated::read_remote_body(message.bytes, &buffers);
        const std::uint64_t address = buffers.at(1).address;
        for (int i = 0; i < 300; ++i) {
          c.send_tagged(*c.agreement().free_data, std::as_bytes(std::span(&address, 1)), {});
        }
      },
  };
  for (const Misdeed& misdeed : misdeeds) {
    const auto connection = connect_by_shm(server);
    EXPECT_THROW(
        {
          misdeed(*connection);
          for (;;) wait_for_message(*connection);
        },
        ConnectionError);
    EXPECT_TRUE(reader->next().has_value());
  }
  const ServerStats stats = server.stats();
  EXPECT_EQ(stats.protocol_errors, misdeeds.size());
  EXPECT_EQ(stats.consumers.size(), 1u);
}

TEST_F(HostileTest, AClientThatNeverReadsHoldsUpNobody) {
  ServerOptions options;
  options.lease_limit = 64 << 10;
  Server server(options);
  server.publish("table", Source::table(number_stream(2000, 10)));
  server.publish("live", Source::factory([] { return number_stream(2000, 10); }));
  const auto deaf = connect_by_shm(server);
  const auto deaf_too = connect_by_shm(server);
  ask(*deaf, "table");
  ask(*deaf_too, "live");
  Client client(server.uri());
  for (const char* name : {"table", "live"}) {
    const auto reader = client.get(name);
    int batches = 0;
    while (reader->next()) ++batches;
    EXPECT_EQ(batches, 2000);
  }
  for (const ConsumerStats& consumer : server.stats().consumers) {
    EXPECT_LE(consumer.in_flight, 2u * options.window + 1) << "more was sent than the window allows";
  }
  server.close();  // with both still there
}

TEST_F(HostileTest, AskingForTheCatalogAgainAndAgainTakesNoDescriptors) {
  Server server;
  server.publish("table", Source::table(number_stream(1, 1)));
  const auto connection = connect_by_shm(server);
  const auto list = [&] {
    ask(*connection, "");
    take_stream(*connection);
  };
  list();
  const int before = open_descriptors();
  for (int i = 0; i < 200; ++i) list();
  EXPECT_LT(open_descriptors(), before + 5);
  Client client(server.uri());
  server.publish("later", Source::table(number_stream(1, 1)));
  EXPECT_EQ(client.list().size(), 2u);
  server.withdraw("table");
  EXPECT_EQ(client.list().at(0).name, "later");
}

TEST_F(HostileTest, AHugeTicketIsCutInWhatIsSaidOfIt) {
  std::mutex mutex;
  std::size_t longest = 0;
  ServerOptions options;
  options.log = [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    longest = std::max(longest, line.size());
    EXPECT_EQ(line.find('\033'), line.npos) << "a peer's control characters reach the log";
  };
  Server server(options);
  const auto connection = connect_by_shm(server);
  ask(*connection, std::string(1 << 20, '\033'));
  const auto answer = take_stream(*connection);
  EXPECT_EQ(dissociated::read_prefix(answer).type, MessageType::kError);
  EXPECT_LT(answer.size(), 2000u);
  ask(*connection, "");
  take_stream(*connection);
  const std::lock_guard lock(mutex);
  EXPECT_LT(longest, 2000u);
}

TEST_F(HostileTest, ATicketIsNoLongerThanAServerTakesIt) {
  ServerOptions options;
  options.uris = {"shm:", "tcp:"};
  Server server(options);
  for (const std::string& uri : server.uris()) {
    Client client(uri);
    EXPECT_THROW(client.get(std::string((1 << 20) + 1, 'x')), InvalidArgumentError) << uri;
    EXPECT_THROW(client.get(std::string(1 << 20, 'x')), NotFoundError) << uri;
  }
}

TEST_F(HostileTest, ACrowdOfIdleConnectionsIsBorne) {
  Server server;
  server.publish("table", Source::table(number_stream(3, 10)));
  std::vector<std::unique_ptr<transport::Connection>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(connect_by_shm(server));
  Client client(server.uri());
  const auto reader = client.get("table");
  int batches = 0;
  while (reader->next()) ++batches;
  EXPECT_EQ(batches, 3);
  EXPECT_EQ(server.stats().consumers.size(), 101u);
}

// The inode behind a mapped address.
std::uint64_t inode_at(const void* pointer) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) != 3) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    if (at >= from && at < to) return inode;
  }
  return 0;
}

TEST_F(HostileTest, RecycledMemoryIsNeverSharedBetweenConsumers) {
  Server server;
  server.publish("live", Source::factory(endless_stream));
  Client client(server.uri());
  std::vector<std::uint64_t> seen;
  for (int i = 0; i < 3; ++i) {
    // One after another, too: what a consumer that has finished still maps must not be written for the next.
    const auto one = client.get("live");
    const auto other = client.get("live");
    for (const auto& batch : {one->next(), other->next()}) {
      const std::uint64_t inode = inode_at(batch->buffers[1].data);
      EXPECT_NE(inode, 0u);
      EXPECT_THAT(seen, ::testing::Not(::testing::Contains(inode)));
      seen.push_back(inode);
    }
  }
}

TEST_F(HostileTest, AClientOutOfAddressSpaceIsToldSoAndTheServerGoesOn) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs address space of its own";
#endif
  testing::ChildProcess poor([](const testing::ChildProcess::Line& line) {
    Client client(line.hear());
    unsigned long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t little = static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (8 << 20);
    const rlimit limit{little, little};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      const auto reader = client.get("large");
      while (reader->next()) {
      }
      return 1;
    } catch (const ResourceError& error) {
      return std::string_view(error.what()).find("ulimit -v") == std::string_view::npos ? 2 : 0;
    }
  });
  Server server;
  server.publish("large", Source::table(number_stream(1, 1'000'000)));  // some 18 MB
  poor.line().say(server.uri());
  EXPECT_EQ(poor.wait(), 0);
  Client client(server.uri());
  EXPECT_TRUE(client.get("large")->next().has_value());
}

// A client whose ring and cursors hold whatever it likes.
class RawClient {
 public:
  explicit RawClient(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw_errno(errno, "connecting");
    }
    const auto hello = transport::shm::encode(
        transport::shm::Hello{.features = transport::shm::kFeatureErrorMessages, .max_message = 1 << 20});
    transport::shm::send_packet(socket_.get(), hello, {}, "a test");
    EXPECT_TRUE(comes(POLLIN));
    EXPECT_EQ(transport::shm::receive_packet(socket_.get(), &welcome_, "a test"), transport::shm::Received::kPacket);
    transport::shm::Welcome welcome;
    EXPECT_TRUE(transport::shm::decode(welcome_.content(), &welcome));
    ring_ = transport::shm::RingMemory::adopt_own(welcome_.fds[1].unchecked(), welcome.ring_bytes, "a test");
  }
  transport::shm::RingHeader& header() const { return *ring_.header(); }
  std::span<std::byte> data() const { return {ring_.data(), ring_.ring_bytes()}; }
  void ring() const {
    const std::byte doorbell{transport::shm::kDoorbell};
    transport::shm::send_packet(socket_.get(), {&doorbell, 1}, {}, "a test");
  }
  bool was_dropped() const { return comes(POLLRDHUP); }

 private:
  bool comes(short events) const {
    pollfd ask{socket_.get(), events, 0};
    return ::poll(&ask, 1, 20'000) > 0;
  }
  UniqueFd socket_;
  transport::shm::RingMemory ring_;
  transport::shm::Packet welcome_;
};

TEST_F(HostileTest, GarbageInARingHarmsNobodyElse) {
  Server server;
  server.publish("live", Source::factory(endless_stream));
  const dissociated::Uri location = dissociated::parse_uri(server.locations().front());
  const std::string socket = transport::shm::read_address(location.address).path;
  Client client(server.uri());
  const auto reader = client.get("live");
  std::mt19937_64 random(20);
  for (int round = 0; round < 40; ++round) {
    const RawClient raw(socket);
    for (std::byte& byte : raw.data()) byte = static_cast<std::byte>(random());
    std::uint64_t garbage_at = 0;
    if (round % 2 == 1) {  // a stream is under way when it comes
      const transport::shm::FrameHeader want{4, transport::shm::kTagged, *location.want_data};
      std::memcpy(raw.data().data(), &want, sizeof want);
      std::memcpy(raw.data().data() + sizeof want, "live", 4);
      garbage_at = 2 * sizeof want;
    }
    if (round % 4 >= 2) raw.header().messages_taken = random();
    if (round % 8 >= 4) raw.header().taken = random();
    raw.header().requests = random();
    raw.header().taken_goal = random();
    raw.header().written = garbage_at + 4096;
    raw.ring();
    EXPECT_TRUE(raw.was_dropped()) << "round " << round;
    EXPECT_TRUE(reader->next().has_value());
  }
  EXPECT_EQ(server.stats().consumers.size(), 1u);
}

TEST_F(HostileTest, AClientThatKeepsEverythingGetsNoFurtherStreamAndOthersDo) {
  ServerOptions options;
  options.max_leases = 50;
  Server server(options);
  server.publish("table", Source::table(number_stream(10, 100)));  // 30 buffers
  Client keeper(server.uri());
  std::vector<array::RecordBatch> kept;
  const auto keep_all = [&] {
    const auto reader = keeper.get("table");
    while (auto batch = reader->next()) kept.push_back(*std::move(batch));
  };
  keep_all();
  keep_all();
  for (int i = 0; i < 2; ++i) {
    try {
      keep_all();
      FAIL() << "a stream over the limit";
    } catch (const LeaseLimitError& error) {
      EXPECT_THAT(error.what(), HasSubstr("holds 60 buffers")) << "what it holds stays as it is";
      EXPECT_THAT(error.what(), HasSubstr("max_leases is 50"));
    }
  }
  Client other(server.uri());
  EXPECT_EQ(number_at(*other.get("table")->next(), 99), 99);
  EXPECT_EQ(number_at(kept.back(), 99), 999);
  kept.resize(15);  // gives half of the second stream back
  keep_all();
  EXPECT_EQ(kept.size(), 25u);
  EXPECT_EQ(server.stats().protocol_errors, 0u);
}

TEST_F(HostileTest, ClientsBeyondTheLimitAreTurnedAwayByNameAndThoseWhoAreHereGoOn) {
  auto all = std::make_shared<transport::TransportRegistry>();
  for (auto made :
       {transport::make_shm_transport(), transport::make_tcp_transport(), transport::make_memory_transport()})
    all->add(made);
  ServerOptions options;
  options.uris = {"shm:", "tcp:", "memory:"};
  options.transports = all;
  options.max_connections = 3;
  Server server(options);
  server.publish("live", Source::factory(endless_stream));
  ClientOptions of_client;
  of_client.transports = all;
  const auto connect = [&](const std::string& uri) { return std::make_unique<Client>(uri, of_client); };
  std::vector<std::unique_ptr<Client>> here;
  for (const std::string& uri : server.uris()) {
    here.push_back(connect(uri));
    EXPECT_EQ(here.back()->list().size(), 1u);
  }
  const auto reader = here[0]->get("live");
  EXPECT_EQ(server.stats().consumers.size(), 3u);
  for (const std::string& uri : server.uris()) {
    try {
      connect(uri);
      FAIL() << uri << ": one more than the server takes";
    } catch (const ConnectionError& error) {
      EXPECT_THAT(error.what(), HasSubstr("max_connections")) << uri;
    }
  }
  EXPECT_THROW(here[0]->get("live"), ConnectionError) << "which needs another connection";
  EXPECT_EQ(number_at(*reader->next(), 99), 99);
  here[1].reset();
  // Over a network the server learns that a moment later.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (server.stats().consumers.size() > 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(connect(server.uris()[0])->list().size(), 1u) << "there is room again";
}

// The schema fits, a batch's metadata doesn't: a view column has as many buffers as it likes.
TEST_F(HostileTest, MetadataOverTheLimitOfAMessageReachesTheClientAsAnError) {
  constexpr std::size_t kBuffers = 500;
  const auto memory = std::make_shared<const std::vector<std::byte>>(64);
  array::RecordBatch batch;
  batch.schema = testing::make_schema({{"views", array::TypeId::kUtf8View}});
  batch.num_rows = 1;
  batch.nodes = {{1, 0, 0}};
  batch.buffers = {{nullptr, 0}, {memory->data(), 16}};
  batch.buffers.resize(2 + kBuffers, {memory->data(), 64});
  batch.variadic_counts = {kBuffers};
  batch.owner = memory;
  for (const char* uri : {"shm:", "tcp:"}) {
    auto small = std::make_shared<transport::TransportRegistry>();
    small->add(transport::make_shm_transport({.max_message = 4096}));
    small->add(transport::make_tcp_transport({.max_message = 4096}));
    ServerOptions options;
    options.uris = {uri};
    options.transports = small;
    Server server(options);
    server.publish("views", Source::table(testing::stream_of({batch})));
    Client client(server.uri());
    const auto reader = client.get("views");
    try {
      reader->next();
      FAIL() << uri << ": metadata over the limit";
    } catch (const RemoteError& error) {
      EXPECT_THAT(error.what(), HasSubstr("InvalidArgumentError")) << uri;
      EXPECT_THAT(error.what(), HasSubstr("over the limit of 4096 bytes")) << uri;
    }
  }
}

// --- servers ---

TEST_F(HostileTest, AServerThatRetiresWhatItDidNotAnnounceIsFoundOut) {
  EXPECT_EQ(outcome_of(FakeServer([](auto& c) { c.retire(9); })), "ProtocolError");
}

TEST_F(HostileTest, WhatIsOverAReadersLimitsIsRefusedByName) {
  const FakeServer::Script honest = [](auto& c) {
    Truth t;
    c.announce(7, t.region);
    t.schema(c);
    t.record_batch(c);
    t.body(c);
    Truth::end(c, 2);
  };
  const FakeServer::Script compressed = [](auto& c) {
    Truth t;
    t.schema(c);
    ipc::Compressor compressor(ipc::Codec::kZstd);
    const ipc::CompressedBody& body = compressor.compress(t.batch);
    Truth::metadata(c, 1, t.encoder.record_batch(t.batch, &body.layout));
    std::vector<std::byte> bytes;
    for (const ByteSpan piece : body.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
    c.send_tagged(dissociated::write_tag(1, dissociated::BodyType::kPacked), bytes, {});
    Truth::end(c, 2);
  };
  EXPECT_EQ(outcome_of(FakeServer(honest)), "well");
  EXPECT_EQ(outcome_of(FakeServer(compressed)), "well");
  const std::vector<std::pair<ipc::Limits, std::string>> cases = {
      {{.max_fields = 1}, "more than 1 fields"},
      {{.max_metadata_bytes = 100}, "max_metadata_bytes"},
      {{.max_decompressed_bytes = 100}, "100"},
      {{.max_buffers = 4}, "over the limit of 4"},
  };
  for (const auto& [limits, words] : cases) {
    const FakeServer server(limits.max_decompressed_bytes == 100 ? compressed : honest);
    Client client(server.uri());
    GetOptions options;
    options.limits = limits;
    try {
      const auto reader = client.get("table", options);
      reader->next();
      ADD_FAILURE() << words;
    } catch (const InvalidDataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

TEST_F(HostileTest, AServerThatSendsDictionariesWithoutEndHoldsNobodyPastHisTime) {
  const FakeServer server([](auto& c) {
    array::Field field;
    field.name = "d";
    field.type.id = array::TypeId::kInt32;
    array::Field inner;
    inner.type.id = array::TypeId::kInt64;
    field.dictionary = std::make_shared<const array::Field>(inner);
    field.dictionary_id = 5;
    const array::Schema schema({field});
    array::RecordBatch values;
    values.schema = schema.dictionaries()[0].values;
    values.nodes = {{0, 0, 0}};
    values.buffers.resize(2);
    ipc::Encoder encoder;
    Truth::metadata(c, 0, encoder.schema(schema));
    const ByteSpan metadata = encoder.dictionary_batch(values, 5, false);
    for (std::uint32_t number = 1;; ++number) {
      while (!c.send(dissociated::write_prefix(MessageType::kMetadata, number), metadata)) {
      }
      while (!c.send_tagged(dissociated::write_tag(number, dissociated::BodyType::kPacked), {}, {})) {
      }
    }
  });
  Client client(server.uri());
  GetOptions options;
  options.timeout = std::chrono::milliseconds(50);
  const auto reader = client.get("table", options);
  EXPECT_THROW(reader->next(), TimeoutError);
  EXPECT_THROW(reader->next(), TimeoutError) << "and may be called again";
  reader->set_interrupt_hook([] { return true; });
  EXPECT_THROW(reader->next(), InterruptedError);
  reader->close();
}

TEST_F(HostileTest, ALongBodyWhosePiecesKeepComingHoldsNobodyPastHisTime) {
  const FakeServer server([](auto& c) {
    Truth truth;
    truth.schema(c);
    truth.record_batch(c);
    const auto piece = std::make_shared<const std::vector<std::byte>>(1 << 20);
    const std::vector<ByteSpan> parts(2048, ByteSpan(*piece));
    ASSERT_TRUE(c.send_body(dissociated::write_tag(1, dissociated::BodyType::kPacked), parts, piece));
    while (!c.flush()) {
    }
  });
  Client client(server.uri());
  GetOptions options;
  options.timeout = std::chrono::milliseconds(1);
  options.wait = transport::WaitMode::kBlock;
  const auto reader = client.get("table", options);
  EXPECT_THROW(reader->next(), TimeoutError);
  EXPECT_THROW(reader->next(), TimeoutError) << "and may be called again";
  reader->set_interrupt_hook([] { return true; });
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(reader->next(), InterruptedError) << "also where the time is over before the hook is asked";
  }
  reader->close();
}

TEST_F(HostileTest, ARegionRetiredUnderABatchStaysForTheBatch) {
  const FakeServer server([](auto& c) {
    Truth truth;
    c.announce(7, truth.region);
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    c.retire(7);
    truth.record_batch(c, 2);
    truth.body(c, 2);  // under a number that names nothing any more
    c.announce(7, truth.region);
    Truth::end(c, 3);
  });
  Client client(server.uri());
  const auto reader = client.get("table");
  const auto first = reader->next();
  const auto second = reader->next();
  EXPECT_EQ(number_at(*first, 9), 9);
  EXPECT_EQ(number_at(*second, 9), 9);
  EXPECT_FALSE(reader->next().has_value());
}

TEST_F(HostileTest, WaitingForMemoryThatWasNotAnnouncedIsInterruptedAndNothingIsLost) {
  std::promise<void> go_on;
  const FakeServer server([told = go_on.get_future().share()](auto& c) {
    Truth truth;
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    told.wait();
    c.announce(7, truth.region);
    Truth::end(c, 2);
  });
  Client client(server.uri());
  const auto reader = client.get("table");
  reader->set_interrupt_hook([] { return true; });
  std::string said;
  while (said.find("region") == std::string::npos) {
    try {
      reader->next();
      FAIL() << "a batch without its memory";
    } catch (const InterruptedError& error) {
      said = error.what();  // before the message came, or while its region was waited for
    }
  }
  go_on.set_value();
  reader->set_interrupt_hook({});
  const auto batch = reader->next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(number_at(*batch, 9), 9);
  EXPECT_FALSE(reader->next().has_value());
}

TEST_F(HostileTest, NumbersAtOddAddressesReachNobody) {
  const FakeServer server([](auto& c) {
    Truth truth;
    std::vector<std::byte> body(1);
    ipc::BodyLayout layout;
    for (const array::BufferView& buffer : truth.batch.buffers) {
      layout.buffers.push_back({static_cast<std::int64_t>(body.size()), buffer.size});
      const auto* bytes = static_cast<const std::byte*>(buffer.data);
      body.insert(body.end(), bytes, bytes + buffer.size);
    }
    layout.body_length = static_cast<std::int64_t>(body.size());
    device::RegionWriter writer("odd");
    const std::uint64_t at = writer.append(body);
    for (std::size_t i = 0; i < truth.remote.size(); ++i) {
      if (truth.remote[i].length == 0) continue;
      truth.remote[i].address = device::make_address(7, at + static_cast<std::uint64_t>(layout.buffers[i].offset));
    }
    truth.region = writer.freeze();
    c.announce(7, truth.region);
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    Truth::metadata(c, 2, truth.encoder.record_batch(truth.batch, &layout));
    c.send_tagged(dissociated::write_tag(2, dissociated::BodyType::kPacked), body, {});
    Truth::end(c, 3);
  });
  Client client(server.uri());
  const auto reader = client.get("table");
  for (const char* body : {"by address", "by value"}) {
    const auto batch = reader->next();
    ASSERT_TRUE(batch.has_value()) << body;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->buffers[1].data) % alignof(std::int64_t), 0u) << body;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->buffers[3].data) % alignof(std::int32_t), 0u) << body;
    for (std::int64_t row = 0; row < batch->num_rows; ++row) {
      EXPECT_EQ(number_at(*batch, row), row) << body;
      EXPECT_EQ(testing::text_at(*batch, row), std::to_string(row)) << body;
    }
  }
  EXPECT_FALSE(reader->next().has_value());
}

TEST_F(HostileTest, NothingWaitsForMemoryThatWasNotAnnouncedInAnEventLoop) {
  std::promise<void> go_on;
  const FakeServer server([told = go_on.get_future().share()](auto& c) {
    Truth truth;
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    Truth::end(c, 2);
    told.wait();
    c.announce(7, truth.region);
  });
  Client client(server.uri());
  const auto reader = client.get("table");
  reader->set_interrupt_hook([] { return true; });  // isn't asked
  const auto wait = [&](int timeout_ms) {
    if (!reader->prepare_sleep()) return 1;
    pollfd ask{reader->descriptor(), POLLIN, 0};
    const int events = ::poll(&ask, 1, timeout_ms);
    reader->awake();
    return events;
  };
  std::optional<array::RecordBatch> batch;
  const std::int64_t start = now_ns();
  // Until all that the server sent is there, the region missing.
  while (wait(100) != 0) ASSERT_FALSE(testing::poll_next(*reader, &batch));
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(testing::poll_next(*reader, &batch));
  EXPECT_LT(now_ns() - start, 4'000'000'000) << "the time that an announcement has was waited for";
  go_on.set_value();
  while (!testing::poll_next(*reader, &batch)) ASSERT_NE(wait(10'000), 0);
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(number_at(*batch, 9), 9);
  while (!testing::poll_next(*reader, &batch)) ASSERT_NE(wait(10'000), 0);
  EXPECT_FALSE(batch.has_value());
}

TEST_F(HostileTest, ACatalogThatIsNoneIsRefused) {
  const FakeServer server([](auto& c) {
    Truth truth;  // numbers and texts
    c.announce(7, truth.region);
    truth.schema(c);
    truth.record_batch(c);
    truth.body(c);
    Truth::end(c, 2);
  });
  Client client(server.uri());
  EXPECT_THROW(client.list(), InvalidDataError);
}

TEST_F(HostileTest, AServerTakesNoBodiesAndNoRegionsFromClients) {
  Server server;
  server.publish("numbers", Source::table(number_stream(1, 1)));
  {
    const auto client = connect_by_shm(server);
    const std::vector<std::byte> body(1 << 20);
    const std::vector<ByteSpan> parts = {body};
    EXPECT_EQ(client->max_body(), 0u);
    EXPECT_THROW(client->send_body(client->agreement().want_data, parts, nullptr), InvalidArgumentError);
  }
  const auto client = connect_by_shm(server);
  const auto region = device::Region::make_recycled(4096, "unasked");
  ASSERT_TRUE(client->announce(1, region));
  EXPECT_THROW(
      while (true) {
        client->receive();
        transport::wait_readable(*client, transport::WaitMode::kBlock, 0, {});
      },
      ConnectionError);
  EXPECT_EQ(server.stats().protocol_errors, 1u);
}

}  // namespace
}  // namespace crossdock::session
