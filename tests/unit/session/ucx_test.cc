// Servers and clients that meet over UCX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>

#include "crossdock/core/error.h"
#include "crossdock/device/pool.h"
#include "crossdock/session/client.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/server.h"
#include "crossdock/session/transports.h"
#include "streams_at_once.h"
#include "support/batches.h"
#include "support/polled.h"
#include "support/process.h"
#include "transport/registry.h"
#include "transport/ucx.h"

namespace crossdock::session {
namespace {

using testing::number_at;
using testing::number_stream;
using ::testing::StartsWith;
using transport::Way;

class UcxSession : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!transport::find_ucx().found) GTEST_SKIP() << "no library of UCX can be opened here";
  }
  static std::shared_ptr<const transport::TransportRegistry> with_token(const std::string& token) {
    TransportOptions options;
    options.ucx.token = token;
    return make_transports(options);
  }
  static ServerOptions server_options(const std::string& uri, const std::string& token = {}) {
    ServerOptions options;
    options.uris = {uri};
    options.transports = with_token(token);
    return options;
  }
  static ClientOptions client_options(const std::string& token = {}) {
    ClientOptions options;
    options.transports = with_token(token);
    return options;
  }
  static void expect_numbers(Reader& reader, int batches, std::int64_t rows) {
    for (int i = 0; i < batches; ++i) {
      const auto batch = reader.next();
      ASSERT_TRUE(batch) << i;
      EXPECT_EQ(number_at(*batch, 0), i * rows);
      EXPECT_EQ(number_at(*batch, rows - 1), (i + 1) * rows - 1);
    }
    EXPECT_FALSE(reader.next());
  }
};

// First: it forks, and no other test of this process may have started UCX before.
TEST_F(UcxSession, AServerThatIsKilledEndsAStream) {
  testing::ChildProcess child([](const auto& line) {
    Server server(server_options("ucx:"));
    server.publish("live", Source::factory([] { return number_stream(1'000'000, 10'000); }));
    line.say(server.uri());
    line.hear();
    return 0;
  });
  const std::string uri = child.line().hear();
  ASSERT_THAT(uri, StartsWith("ucx://"));
  Client client(uri, client_options());
  const auto reader = client.get("live");
  ASSERT_TRUE(reader->next());
  child.kill();
  EXPECT_THROW(while (reader->next()){}, TruncatedStreamError);
}

TEST_F(UcxSession, AClientThatIsKilledInTheMiddleOfReadsEndsNobodyElse) {
  testing::ChildProcess child([](const auto& line) {
    const std::string uri = line.hear();
    ClientOptions options = client_options();
    options.way = Way::kRead;
    Client client(uri, options);
    const auto reader = client.get("numbers", {.read_ahead = 1ull << 30});
    reader->next();
    line.say("reading");
    while (reader->next()) continue;
    for (;;) expect_numbers(*client.get("numbers"), 60, 50'000);  // until it is killed, however late that is
    return 0;
  });
  Server server(server_options("ucx:"));
  server.publish("numbers", Source::table(number_stream(60, 50'000)));
  child.line().say(server.uri());
  ASSERT_EQ(child.line().hear(), "reading");
  child.kill();
  Client client(server.uri(), client_options());
  expect_numbers(*client.get("numbers"), 60, 50'000);
}

TEST_F(UcxSession, AReaderWithoutRoomForAnotherBodySleepsThoughMessagesWait) {
  testing::ChildProcess child([](const auto& line) {
    Server server(server_options("ucx:"));
    server.publish("numbers", Source::table(number_stream(40, 50'000)));
    line.say(server.uri());
    line.hear();
    return 0;
  });
  ClientOptions options = client_options();
  options.way = Way::kRead;
  Client client(child.line().hear(), options);
  const auto reader = client.get("numbers", {.timeout = std::chrono::milliseconds(500), .read_ahead = 0});
  ASSERT_TRUE(reader->next());
  ::kill(child.pid(), SIGSTOP);
  timespec before{};
  timespec after{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  EXPECT_THROW(while (reader->next()){}, TimeoutError);
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  EXPECT_LT((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1'000'000, 250);
  ::kill(child.pid(), SIGCONT);
  ASSERT_TRUE(reader->next());
}

TEST_F(UcxSession, APoolUsesItsMemoryAgainWhereUcxHasReplacedFunctions) {
  Server server(server_options("ucx://127.0.0.1:0"));
  const Client client(server.uri(), client_options());  // UCX is there from now on
  const auto pool = Runtime::default_runtime()->make_pool();
  const std::byte* first = nullptr;
  for (int i = 0; i < 8; ++i) {
    auto memory = pool->allocate(1 << 16);
    if (i == 0) first = memory.get();
    EXPECT_EQ(memory.get(), first) << "the block was moved away from its addresses";
    ASSERT_TRUE(pool->lend(memory.get(), 8));  // the lease ends at once
    memory.reset();
  }
  EXPECT_EQ(pool->stats().reused, 7U);
}

TEST_F(UcxSession, TablesCross) {
  for (const char* uri : {"ucx:", "ucx://127.0.0.1:0"}) {
    Server server(server_options(uri));
    EXPECT_THAT(server.uri(), StartsWith("ucx://127.0.0.1:"));
    server.publish("numbers", Source::table(number_stream(20, 20'000)));
    Client client(server.uri(), client_options());
    for (int i = 0; i < 2; ++i) expect_numbers(*client.get("numbers"), 20, 20'000);
  }
}

TEST_F(UcxSession, AServerIsClosedAtOnceThoughAClientHasAnIdleConnection) {
  std::optional<Server> server;
  server.emplace(server_options("ucx:"));
  server->publish("numbers", Source::table(number_stream(20, 100)));
  ClientOptions options = client_options();
  options.way = Way::kMessage;
  Client client(server->uri(), options);
  expect_numbers(*client.get("numbers", {.wait = transport::WaitMode::kSpin}), 20, 100);
  const auto start = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500)) << "it waits for a second";
}

// UCX 1.13 aborts the server's process, which is this one, if a client is gone while a body is written to its memory.
TEST_F(UcxSession, ClientsMayLeaveInTheMiddleOfAStream) {
  constexpr int kClients = 150;
  Server server(server_options("ucx:"));
  server.publish("numbers", Source::table(number_stream(400, 8192)));
  for (int i = 0; i < kClients; ++i) {
    Client client(server.uri(), client_options());
    const auto reader = client.get("numbers");
    for (int taken = 0; taken < 10 + i % 7; ++taken) ASSERT_TRUE(reader->next().has_value());
  }
  Client client(server.uri(), client_options());
  expect_numbers(*client.get("numbers"), 400, 8192);
}

TEST_F(UcxSession, ClientsMayRunOutOfMemoryInTheMiddleOfAStream) {
  constexpr std::int64_t kRows = 8192;
  Server server(server_options("ucx:"));
  server.publish("numbers", Source::table(number_stream(400, kRows)));
  const auto start = std::chrono::steady_clock::now();
  constexpr int kClients = 60;
  for (int i = 0; i < kClients; ++i) {
    Client client(server.uri(), client_options());
    GetOptions options;
    options.arena = std::make_shared<device::Arena>(static_cast<std::uint64_t>(10 + i % 7) * kRows * 8);
    const auto reader = client.get("numbers", options);
    EXPECT_THROW(while (reader->next()){}, ResourceError);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, kClients * std::chrono::milliseconds(300))
      << "each waits a second";
  Client client(server.uri(), client_options());
  expect_numbers(*client.get("numbers"), 400, kRows);
}

TEST_F(UcxSession, TablesAreRead) {
  Server server(server_options("ucx:"));
  server.publish("numbers", Source::table(number_stream(20, 20'000)));
  ClientOptions options = client_options();
  options.way = Way::kRead;
  Client client(server.uri(), options);
  for (int i = 0; i < 3; ++i) expect_numbers(*client.get("numbers"), 20, 20'000);
  EXPECT_EQ(server.stats().consumers.at(0).way, Way::kRead);
  EXPECT_EQ(server.stats().consumers.at(0).leases, 0u);
}

TEST_F(UcxSession, SomeColumnsAreReadAndNoOthersTransferred) {
  Server server(server_options("ucx:"));
  server.publish("numbers", Source::table(number_stream(10, 20'000)));
  Client client(server.uri(), client_options());
  GetOptions options{.columns = {{"number"}}};
  options.arena = std::make_shared<device::Arena>();  // keeps all that is received
  const auto reader = client.get("numbers", options);
  for (int i = 0; i < 10; ++i) {
    const auto batch = reader->next();
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->schema->fields().size(), 1u);
    EXPECT_EQ(number_at(*batch, 7), i * 20'000 + 7);
  }
  EXPECT_FALSE(reader->next());
  EXPECT_LE(options.arena->size(), 10u * 20'000 * 8 + 8192);
  EXPECT_EQ(server.stats().consumers.back().way, Way::kRead);
}

TEST_F(UcxSession, ReadsAreServedUntilTheEndThoughTheServerCloses) {
  auto server = std::make_unique<Server>(server_options("ucx:"));
  server->publish("numbers", Source::table(number_stream(3, 20'000)));
  ClientOptions options = client_options();
  options.way = Way::kRead;
  Client client(server->uri(), options);
  const auto reader = client.get("numbers");
  std::optional<array::RecordBatch> batch;
  while (!testing::poll_next(*reader, &batch)) continue;
  std::thread closing([&] { server.reset(); });
  try {
    while (reader->next()) continue;
  } catch (const TruncatedStreamError&) {  // what hadn't been asked for by then
  }
  closing.join();
}

TEST_F(UcxSession, LiveStreamsCross) {
  Server server(server_options("ucx:"));
  server.publish("live", Source::factory([] { return number_stream(50, 10'000); }));
  Client client(server.uri(), client_options());
  expect_numbers(*client.get("live"), 50, 10'000);
}

TEST_F(UcxSession, StreamsCrossAtOnce) { expect_streams_cross_at_once(server_options("ucx:"), client_options()); }

TEST_F(UcxSession, AReaderMayStopInTheMiddleOfReads) {
  Server server(server_options("ucx:"));
  server.publish("numbers", Source::table(number_stream(100, 50'000)));
  ClientOptions options = client_options();
  options.way = Way::kRead;
  for (const bool closes : {false, true}) {
    for (int i = 0; i < 3; ++i) {
      Client client(server.uri(), options);
      const auto reader = client.get("numbers", {.read_ahead = 1ull << 30});
      EXPECT_TRUE(reader->next());
      if (closes) reader->close();
    }
  }
  Client client(server.uri(), options);
  {
    const auto reader = client.get("numbers", {.read_ahead = 1ull << 30});
    EXPECT_TRUE(reader->next());
  }
  expect_numbers(*client.get("numbers"), 100, 50'000);
}

TEST_F(UcxSession, BatchesOutliveEverything) {
  std::optional<array::RecordBatch> kept;
  {
    Server server(server_options("ucx:"));
    server.publish("numbers", Source::table(number_stream(3, 1000)));
    Client client(server.uri(), client_options());
    const auto reader = client.get("numbers");
    reader->next();
    kept = reader->next();
  }
  EXPECT_EQ(number_at(*kept, 0), 1000);
  EXPECT_EQ(number_at(*kept, 999), 1999);
}

/// A location without what says that the server is Crossdock's: then both ends are strictly as specified.
std::string as_specified(std::string location) {
  const std::string marker = "&crossdock=1";
  const std::size_t at = location.find(marker);
  if (at == std::string::npos) throw std::logic_error(location + " has no marker");
  return location.erase(at, marker.size());
}

TEST_F(UcxSession, ALocationReachesTheServerWithItsFeaturesAndWithout) {
  Server server(server_options("ucx:"));
  server.publish("table", Source::table(number_stream(20, 20'000)));
  server.publish("live", Source::factory([] { return number_stream(50, 10'000); }));
  const std::string location = server.locations().at(0);
  for (const std::string& uri : {location, as_specified(location)}) {
    Client client(uri, client_options());
    for (int i = 0; i < 2; ++i) {
      expect_numbers(*client.get("table"), 20, 20'000);
      expect_numbers(*client.get("live"), 50, 10'000);
    }
    EXPECT_EQ(client.list().size(), 2u);
    EXPECT_EQ(server.stats().consumers.back().way, Way::kMessage);
  }
}

TEST_F(UcxSession, WithoutFeaturesAnErrorIsTheEndOfTheConnection) {
  Server server(server_options("ucx:"));
  Client client(as_specified(server.locations().at(0)), client_options());
  EXPECT_THROW(client.get("missing"), TruncatedStreamError);
}

TEST_F(UcxSession, BodiesAreReadByARemoteHandleBetweenEndsThatTrustEachOther) {
  TransportOptions trusting;
  trusting.ucx.remote_reads = true;
  ServerOptions options;
  options.uris = {"shm:", "ucx:"};
  options.transports = make_transports(trusting);
  Server server(options);
  server.publish("numbers", Source::table(number_stream(20, 20'000)));
  server.publish("other", Source::table(number_stream(3, 1000)));
  server.publish("live", Source::factory([] { return number_stream(50, 10'000); }));
  const std::string uri = server.location("numbers");
  EXPECT_EQ(server.location("numbers"), uri);
  EXPECT_THROW(Client(uri, client_options()), UnsupportedError);
  ClientOptions trusts;
  trusts.transports = options.transports;
  Client client(uri, trusts);
  for (int i = 0; i < 3; ++i) expect_numbers(*client.get("numbers"), 20, 20'000);
  EXPECT_EQ(server.stats().consumers.at(0).way, Way::kRead);
  EXPECT_EQ(server.stats().consumers.at(0).leases, 0u);
  EXPECT_EQ(server.stats().consumers.at(0).bytes_by_value, 0u);
  // What lies elsewhere comes by value.
  expect_numbers(*client.get("other"), 3, 1000);
  EXPECT_EQ(server.stats().consumers.at(0).way, Way::kMessage);
  expect_numbers(*client.get("live"), 50, 10'000);
  EXPECT_THROW(server.location("live"), UnsupportedError);
  EXPECT_THROW(server.location("missing"), NotFoundError);
  // After a replacement, too.
  server.publish("numbers", Source::table(number_stream(5, 100)), {.replace = true});
  expect_numbers(*client.get("numbers"), 5, 100);
  EXPECT_NE(server.location("numbers"), uri);
}

TEST_F(UcxSession, ABodyThatIsReadByARemoteHandleIsLimitedAsOneByValueIs) {
  TransportOptions trusting;
  trusting.ucx.remote_reads = true;
  ServerOptions options = server_options("ucx:");
  options.transports = make_transports(trusting);
  Server server(options);
  server.publish("numbers", Source::table(number_stream(2, 10'000)));
  trusting.ucx.max_body = 4096;
  ClientOptions narrow;
  narrow.transports = make_transports(trusting);
  Client client(server.location("numbers"), narrow);
  const auto reader = client.get("numbers");
  try {
    reader->next();
    ADD_FAILURE() << "it came";
  } catch (const LeaseLimitError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("max_body"));
  }
}

TEST_F(UcxSession, AReaderThatIsDroppedInTheMiddleOfReadsByARemoteHandleEndsNobodyElse) {
  TransportOptions trusting;
  trusting.ucx.remote_reads = true;
  ServerOptions options = server_options("ucx:");
  options.transports = make_transports(trusting);
  Server server(options);
  server.publish("numbers", Source::table(number_stream(100, 100'000)));
  ClientOptions trusts;
  trusts.transports = options.transports;
  Client client(server.location("numbers"), trusts);
  for (int i = 0; i < 10; ++i) {
    const auto reader = client.get("numbers", {.read_ahead = 1ull << 30});
    ASSERT_TRUE(reader->next());
  }
  expect_numbers(*client.get("numbers"), 100, 100'000);
}

TEST_F(UcxSession, ALocationWithARemoteHandleIsNotForEveryServer) {
  for (const char* uri : {"shm:", "ucx:"}) {
    Server server(server_options(uri));
    server.publish("numbers", Source::table(number_stream(3, 1000)));
    EXPECT_THROW(server.location("numbers"), UnsupportedError) << uri;
  }
}

TEST_F(UcxSession, OnlyWhoKnowsTheTokenIsServed) {
  Server server(server_options("ucx:", "a long secret"));
  server.publish("numbers", Source::table(number_stream(3, 1000)));
  Client client(server.uri(), client_options("a long secret"));
  expect_numbers(*client.get("numbers"), 3, 1000);
  for (const char* wrong : {"", "another secret"}) {
    EXPECT_THROW(
        {
          Client stranger(server.uri(), client_options(wrong));
          stranger.list();
        },
        PermissionError);
  }
  expect_numbers(*client.get("numbers"), 3, 1000);
}

}  // namespace
}  // namespace crossdock::session
