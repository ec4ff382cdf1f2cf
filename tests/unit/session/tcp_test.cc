// Servers and clients that meet over the loopback of a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/server.h"
#include "crossdock/session/transports.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "transport/registry.h"

namespace crossdock::session {
namespace {

using ::testing::HasSubstr;
using testing::number_at;
using testing::number_stream;
using ::testing::StartsWith;

class TcpSession : public testing::NoLeftovers {
 protected:
  static std::shared_ptr<const transport::TransportRegistry> with_token(const std::string& token) {
    TransportOptions options;
    options.tcp.token = token;
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

TEST_F(TcpSession, TablesCrossByEveryKindOfAddress) {
  for (const char* uri : {"tcp:", "tcp://127.0.0.1", "tcp://localhost:0", "tcp://[::1]:0"}) {
    Server server(server_options(uri));
    EXPECT_THAT(server.uri(), StartsWith("tcp://"));
    server.publish("numbers", Source::table(number_stream(20, 20'000)));
    Client client(server.uri(), client_options());
    for (int i = 0; i < 2; ++i) expect_numbers(*client.get("numbers"), 20, 20'000);
  }
}

TEST_F(TcpSession, LiveStreamsCross) {
  Server server(server_options("tcp:"));
  server.publish("live", Source::factory([] { return number_stream(50, 10'000); }));
  Client client(server.uri(), client_options());
  expect_numbers(*client.get("live"), 50, 10'000);
}

TEST_F(TcpSession, BatchesOutliveEverything) {
  std::optional<array::RecordBatch> kept;
  {
    Server server(server_options("tcp:"));
    server.publish("numbers", Source::table(number_stream(3, 1000)));
    Client client(server.uri(), client_options());
    const auto reader = client.get("numbers");
    reader->next();
    kept = reader->next();
  }
  EXPECT_EQ(number_at(*kept, 0), 1000);
  EXPECT_EQ(number_at(*kept, 999), 1999);
}

TEST_F(TcpSession, BodiesAreReceivedIntoAnArenaAndPublishedFromIt) {
  Server server(server_options("tcp:"));
  server.publish("numbers", Source::table(number_stream(5, 10'000)));
  Client client(server.uri(), client_options());
  const std::shared_ptr<device::Arena> arena = Runtime::default_runtime()->make_arena(16 << 20);
  GetOptions options;
  options.arena = arena;
  std::vector<array::RecordBatch> batches;
  const auto reader = client.get("numbers", options);
  while (auto batch = reader->next()) {
    for (const array::BufferView& buffer : batch->buffers) {
      EXPECT_TRUE(buffer.size == 0 || arena->contains(buffer.data, static_cast<std::uint64_t>(buffer.size)));
    }
    batches.push_back(*std::move(batch));
  }
  const std::uint64_t used = arena->size();
  EXPECT_LE(used, 5 * 10'000 * 24u);
  expect_numbers(*client.get("numbers"), 5, 10'000);
  EXPECT_EQ(arena->size(), used) << "the next stream on the connection goes elsewhere";

  Server next;
  next.publish("numbers", Source::table(testing::stream_of(std::move(batches))));
  const SourceStats stats = next.stats().sources.at(0);
  EXPECT_EQ(stats.kind, "arena");
  EXPECT_EQ(stats.bytes_copied, 0u);
  Client last(next.uri());
  expect_numbers(*last.get("numbers"), 5, 10'000);

  const auto refused = client.get("numbers", options);
  EXPECT_THROW(refused->next(), ArenaFrozenError);
}

TEST_F(TcpSession, AnArenaBoundsWhatIsReceivedIntoIt) {
  Server server(server_options("tcp:"));
  server.publish("numbers", Source::table(number_stream(5, 10'000)));
  Client client(server.uri(), client_options());
  GetOptions options;
  options.arena = std::make_shared<device::Arena>(400'000);
  const auto reader = client.get("numbers", options);
  EXPECT_TRUE(reader->next());
  EXPECT_THROW(while (reader->next()){}, ResourceError);
  EXPECT_LE(options.arena->size(), 400'064u);
  expect_numbers(*client.get("numbers"), 5, 10'000);
}

TEST_F(TcpSession, OnlyWhoKnowsTheTokenIsServed) {
  Server server(server_options("tcp:", "a long secret"));
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

TEST_F(TcpSession, AMissingNameIsSaidOverTheNetwork) {
  Server server(server_options("tcp:"));
  Client client(server.uri(), client_options());
  try {
    client.get("no such table");
    FAIL();
  } catch (const NotFoundError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no such table"));
  }
}

}  // namespace
}  // namespace crossdock::session
