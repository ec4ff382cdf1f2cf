// Servers and clients that meet over libfabric.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "crossdock/session/transports.h"
#include "streams_at_once.h"
#include "support/batches.h"
#include "support/process.h"
#include "transport/fabric.h"
#include "transport/registry.h"

namespace crossdock::session {
namespace {

using testing::number_at;
using testing::number_stream;
using ::testing::StartsWith;
using transport::Way;

class FabricSession : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!transport::find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
  }
  static std::shared_ptr<const transport::TransportRegistry> with_token(const std::string& token) {
    TransportOptions options;
    options.fabric.token = token;
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

// First: it forks, and no other test of this process may have started libfabric before.
TEST_F(FabricSession, AServerThatIsKilledEndsAStream) {
  testing::ChildProcess child([](const auto& line) {
    Server server(server_options("fabric:"));
    server.publish("live", Source::factory([] { return number_stream(1'000'000, 10'000); }));
    line.say(server.uri());
    line.hear();
    return 0;
  });
  const std::string uri = child.line().hear();
  ASSERT_THAT(uri, StartsWith("fabric://"));
  Client client(uri, client_options());
  const auto reader = client.get("live");
  ASSERT_TRUE(reader->next());
  child.kill();
  EXPECT_THROW(while (reader->next()){}, TruncatedStreamError);
}

/// The memory files that this process has open: those of published tables.
int memory_files() {
  int count = 0;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    count += std::filesystem::read_symlink(descriptor, closed_meanwhile).string().starts_with("/memfd:");
  }
  return count;
}

TEST_F(FabricSession, AClientThatIsKilledInTheMiddleOfReadsHoldsNothingASecondLater) {
  testing::ChildProcess child([](const auto& line) {
    ClientOptions options = client_options();
    options.way = Way::kRead;
    Client client(line.hear(), options);
    const auto reader = client.get("numbers", {.read_ahead = 1ull << 30});
    const auto held = reader->next();
    line.say("reading");
    while (reader->next()) continue;
    for (;;) expect_numbers(*client.get("numbers"), 60, 50'000);  // until it is killed, however late that is
    return 0;
  });
  Server server(server_options("fabric:"));
  Client other(server.uri(), client_options());
  server.publish("numbers", Source::table(number_stream(60, 50'000)));
  expect_numbers(*other.get("numbers"), 60, 50'000);
  child.line().say(server.uri());
  ASSERT_EQ(child.line().hear(), "reading");
  ASSERT_EQ(server.stats().consumers.size(), 2u);
  ASSERT_GT(memory_files(), 0);
  const auto killed = std::chrono::steady_clock::now();
  child.kill();
  server.withdraw("numbers");
  const auto freed = [&] { return server.stats().consumers.size() == 1 && memory_files() == 0; };
  while (!freed() && std::chrono::steady_clock::now() - killed < std::chrono::seconds(20)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(freed());
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(1));
  server.publish("numbers", Source::table(number_stream(60, 50'000)));
  expect_numbers(*other.get("numbers"), 60, 50'000);
}

TEST_F(FabricSession, TablesCross) {
  for (const char* uri : {"fabric:", "fabric://127.0.0.1:0"}) {
    Server server(server_options(uri));
    EXPECT_THAT(server.uri(), StartsWith("fabric://127.0.0.1:"));
    server.publish("numbers", Source::table(number_stream(20, 20'000)));
    Client client(server.uri(), client_options());
    for (int i = 0; i < 2; ++i) expect_numbers(*client.get("numbers"), 20, 20'000);
  }
}

TEST_F(FabricSession, LiveStreamsCross) {
  Server server(server_options("fabric:"));
  server.publish("live", Source::factory([] { return number_stream(50, 10'000); }));
  Client client(server.uri(), client_options());
  expect_numbers(*client.get("live"), 50, 10'000);
}

TEST_F(FabricSession, StreamsCrossAtOnce) { expect_streams_cross_at_once(server_options("fabric:"), client_options()); }

TEST_F(FabricSession, TablesAreReadFromAfar) {
  Server server(server_options("fabric:"));
  server.publish("numbers", Source::table(number_stream(40, 20'000)));
  ClientOptions options = client_options();
  options.way = Way::kRead;
  Client client(server.uri(), options);
  for (int i = 0; i < 5; ++i) expect_numbers(*client.get("numbers"), 40, 20'000);
  const auto one = client.get("numbers");
  const auto other = client.get("numbers");
  expect_numbers(*other, 40, 20'000);
  expect_numbers(*one, 40, 20'000);
}

TEST_F(FabricSession, AReaderMayStopInTheMiddleOfReads) {
  Server server(server_options("fabric:"));
  server.publish("numbers", Source::table(number_stream(100, 50'000)));
  ClientOptions options = client_options();
  options.way = Way::kRead;
  for (int i = 0; i < 3; ++i) {
    Client client(server.uri(), options);
    const auto reader = client.get("numbers");
    EXPECT_TRUE(reader->next());
  }
  Client client(server.uri(), options);
  expect_numbers(*client.get("numbers"), 100, 50'000);
}

/// Waits until a server has sent the end of its only consumer's stream.
void await_end_of_stream(Server& server) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!server.stats().consumers.at(0).name.empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(server.stats().consumers.at(0).name, "");
}

TEST_F(FabricSession, WhatIsOnItsWayWhenTheServerClosesArrives) {
  for (const Way way : {Way::kMessage, Way::kRead}) {
    Server server(server_options("fabric:"));
    server.publish("numbers", Source::table(number_stream(4, 100'000)));  // as many bodies as are sent at once
    ClientOptions options = client_options();
    options.way = way;
    Client client(server.uri(), options);
    const auto reader = client.get("numbers", {.read_ahead = 0});
    await_end_of_stream(server);
    const auto closing = std::async(std::launch::async, [&] { server.close(); });
    expect_numbers(*reader, 4, 100'000);
  }
}

TEST_F(FabricSession, AClientThatTakesNothingHoldsAServerUpForASecondAtMost) {
  Server server(server_options("fabric:"));
  server.publish("numbers", Source::table(number_stream(4, 100'000)));
  ClientOptions options = client_options();
  Client client(server.uri(), options);
  const auto reader = client.get("numbers");
  await_end_of_stream(server);
  const auto before = std::chrono::steady_clock::now();
  server.close();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
  EXPECT_THROW(while (reader->next()){}, TruncatedStreamError);
}

TEST_F(FabricSession, ABodyThatIsReadIsLimitedAsOneByValueIs) {
  Server server(server_options("fabric:"));
  server.publish("numbers", Source::table(number_stream(2, 10'000)));
  TransportOptions narrow;
  narrow.fabric.max_body = 4096;
  ClientOptions options;
  options.transports = make_transports(narrow);
  for (const Way way : {Way::kMessage, Way::kRead}) {
    options.way = way;
    Client client(server.uri(), options);
    const auto reader = client.get("numbers");
    try {
      reader->next();
      ADD_FAILURE() << "it came";
    } catch (const LeaseLimitError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("max_body"));
    }
  }
}

TEST_F(FabricSession, BatchesOutliveEverything) {
  std::optional<array::RecordBatch> kept;
  {
    Server server(server_options("fabric:"));
    server.publish("numbers", Source::table(number_stream(3, 1000)));
    Client client(server.uri(), client_options());
    const auto reader = client.get("numbers");
    reader->next();
    kept = reader->next();
  }
  EXPECT_EQ(number_at(*kept, 0), 1000);
  EXPECT_EQ(number_at(*kept, 999), 1999);
}

TEST_F(FabricSession, OnlyWhoKnowsTheTokenIsServed) {
  Server server(server_options("fabric:", "a long secret"));
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
