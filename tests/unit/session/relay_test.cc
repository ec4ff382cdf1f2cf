// A relay and its upstream in one process. Python's tests have processes, and networks.

#include "crossdock/session/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/log_lines.h"
#include "unit/session/support.h"

namespace crossdock::session {
namespace {

using ::testing::HasSubstr;
using testing::number_stream;

class RelayTest : public testing::NoLeftovers {
 protected:
  static ServerOptions over_tcp() {
    ServerOptions options;
    options.uris = {"tcp:"};
    return options;
  }
  static std::int64_t rows_of(Client& client, const std::string& name) {
    const auto reader = client.get(name);
    std::int64_t rows = 0;
    while (const auto batch = reader->next()) rows += batch->num_rows;
    return rows;
  }
};

TEST_F(RelayTest, FetchesOnceAndSeesChanges) {
  Server upstream(over_tcp());
  upstream.publish("x", Source::table(number_stream(3, 10)));
  Relay relay({upstream.uri()}, {});
  Client one(relay.uri());
  Client other(relay.uri());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rows_of(i % 2 == 0 ? one : other, "x"), 30);
  EXPECT_EQ(relay.stats().relay->fetches, 1U);
  EXPECT_EQ(relay.stats().relay->hits, 2U);
  EXPECT_EQ(relay.stats().sources.at(0).bytes_copied, 0U);
  upstream.publish("x", Source::table(number_stream(1, 7)), kReplace);
  EXPECT_EQ(rows_of(one, "x"), 7);
  EXPECT_EQ(one.list().at(0).version, Client(upstream.uri()).list().at(0).version);
}

TEST_F(RelayTest, ALongestTimeIsLong) {
  Server upstream(over_tcp());
  upstream.publish("x", Source::table(number_stream(1, 10)));
  Relay relay({upstream.uri()}, {.max_age = std::chrono::milliseconds::max()});
  Client client(relay.uri());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rows_of(client, "x"), 10);
  EXPECT_EQ(relay.stats().relay->catalogs, 1U);
  EXPECT_EQ(relay.stats().relay->fetches, 1U);
}

TEST_F(RelayTest, CountsWhatComesWhateverTheCatalogSaid) {
  Server upstream(over_tcp());
  upstream.publish("x", Source::table(number_stream(1, 10)));
  Relay relay({upstream.uri()}, {.max_memory = 1 << 16, .max_age = std::chrono::milliseconds(3'600'000)});
  Client client(relay.uri());
  EXPECT_LT(client.list().at(0).bytes, 200);
  upstream.publish("x", Source::table(number_stream(20, 1000)), kReplace);  // 160,000 bytes
  try {
    rows_of(client, "x");
    FAIL();
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("max_memory is 65536 bytes"));
  }
  EXPECT_EQ(relay.stats().relay->failures, 1U);
  EXPECT_EQ(relay.stats().relay->bytes_used, 0U);
  upstream.publish("x", Source::table(number_stream(2, 1000)), kReplace);
  EXPECT_EQ(rows_of(client, "x"), 2000);
}

TEST_F(RelayTest, ManyWhoAskAtOnceGetOneFetchEachTime) {
  Server upstream(over_tcp());
  Relay relay({upstream.uri()}, {});
  for (std::uint64_t round = 1; round <= 5; ++round) {
    upstream.publish("x", Source::table(number_stream(4, 100)), kReplace);
    std::atomic<std::int64_t> rows = 0;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        Client client(relay.uri());
        rows += rows_of(client, "x");
      });
    }
    threads.clear();
    EXPECT_EQ(rows, 8 * 400);
    EXPECT_EQ(relay.stats().relay->fetches, round);
  }
}

// A table with this number of rows, in batches of 100.
Source table_of(int number) { return Source::table(number_stream(number, 100)); }

TEST_F(RelayTest, EverybodyGetsWhatIsCurrentInLittleMemory) {
  constexpr int kNames = 6;
  constexpr int kVersions = 60;
  Server upstream(over_tcp());
  const auto name_of = [](int name) { return "t" + std::to_string(name); };
  const auto publish = [&](int name, int version) { upstream.publish(name_of(name), table_of(version), kReplace); };
  for (int name = 0; name < kNames; ++name) publish(name, 1);
  // About two of the largest tables, of six names.
  Relay relay({upstream.uri()}, {.max_memory = 300'000});
  std::atomic<int> got = 0;
  std::atomic<bool> over = false;
  {
    std::vector<std::jthread> consumers;
    for (int i = 0; i < 4; ++i) {
      consumers.emplace_back([&, i] {
        Client client(relay.uri());
        std::vector<array::RecordBatch> held;
        std::vector<int> last(kNames);
        for (int round = i; !over; ++round) {
          const int name = (round * 5 + i) % kNames;
          try {
            const auto reader = client.get(name_of(name));
            int batches = 0;
            held.clear();
            while (auto batch = reader->next()) {
              EXPECT_EQ(testing::number_at(*batch, 0), batches * 100);
              ++batches;
              held.push_back(*std::move(batch));
            }
            // A later request never gets older data.
            EXPECT_GE(batches, std::exchange(last[static_cast<std::size_t>(name)], batches));
            ++got;
          } catch (const ResourceError&) {
            held.clear();  // Others held too much.
          }
        }
      });
    }
    for (int version = 2; version <= kVersions; ++version) {
      for (int name = 0; name < kNames; ++name) publish(name, version);
      const int before = got;
      while (got == before) std::this_thread::yield();
      EXPECT_LE(relay.stats().relay->bytes_used, relay.stats().relay->max_memory);
    }
    over = true;
  }
  Client client(relay.uri());
  for (int name = 0; name < kNames; ++name) EXPECT_EQ(rows_of(client, name_of(name)), kVersions * 100);
  EXPECT_GT(relay.stats().relay->evictions, 0U);
  EXPECT_EQ(relay.stats().protocol_errors, 0U);
}

TEST_F(RelayTest, SaysOnceThatItsUpstreamIsGone) {
  testing::LogLines log;
  auto upstream = std::make_unique<Server>(over_tcp());
  upstream->publish("x", Source::table(number_stream(1, 10)));
  RelayOptions options;
  options.server.log = log.callback();
  Relay relay({upstream->uri()}, options);
  options.stale = false;
  Relay strict({upstream->uri()}, options);
  Client client(relay.uri());
  Client of_strict(strict.uris().front());
  EXPECT_EQ(rows_of(client, "x"), 10);
  EXPECT_EQ(rows_of(of_strict, "x"), 10);
  upstream.reset();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rows_of(client, "x"), 10);
  EXPECT_EQ(log.count("serves what it holds"), 1);
  EXPECT_EQ(relay.stats().relay->stale_hits, 3U);
  EXPECT_EQ(relay.stats().relay->upstream, "");
  EXPECT_THROW(rows_of(of_strict, "x"), UpstreamError);
}

TEST_F(RelayTest, OptionsThatMakeNoSenseAreRefused) {
  Server upstream(over_tcp());
  EXPECT_THROW(Relay({}, {}), InvalidArgumentError);
  const auto refused = [&](auto change) {
    RelayOptions options;
    change(options);
    EXPECT_THROW(Relay({upstream.uri()}, options), InvalidArgumentError);
  };
  refused([](RelayOptions& options) { options.server.uris.clear(); });
  refused([](RelayOptions& options) { options.server.window = 0; });
  refused([](RelayOptions& options) { options.max_age = std::chrono::milliseconds(-1); });
  refused([](RelayOptions& options) { options.server.flight.uri = "grpc://127.0.0.1:0"; });
  refused([](RelayOptions& options) { options.server.flight.ticket_lifetime = std::chrono::seconds(0); });
  refused([](RelayOptions& options) { options.server.flight.login_lifetime = std::chrono::seconds::max(); });
  EXPECT_THROW(Relay({"shm:no-such-server"}, {}), ConnectionError);
  EXPECT_THROW(Relay({"shm:no-such-server", "shm:nor-this"}, {}), ConnectionError);
}

}  // namespace
}  // namespace crossdock::session
