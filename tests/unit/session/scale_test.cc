// Many consumers, many names, and names that come and go while they are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"

namespace crossdock::session {
namespace {

using testing::number_at;
using testing::number_stream;

class ScaleTest : public testing::NoLeftovers {};

TEST_F(ScaleTest, SixtyFourConsumersEachWithAStreamOfItsOwn) {
  constexpr int kConsumers = 64;
  constexpr int kBatches = 200;
  ServerOptions options;
  options.wait = transport::WaitMode::kBlock;
  Server server(options);
  server.publish("table", Source::table(number_stream(kBatches, 100)));
  server.publish("live", Source::factory([] { return number_stream(kBatches, 100); }));
  std::barrier together(kConsumers);
  std::atomic<int> whole = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kConsumers; ++i) {
    threads.emplace_back([&, i] {
      Client client(server.uri());
      GetOptions get;
      get.wait = transport::WaitMode::kBlock;
      const auto reader = client.get(i % 2 == 0 ? "table" : "live", get);
      together.arrive_and_wait();  // all streams are under way at once
      std::int64_t expected = 0;
      while (const auto batch = reader->next()) {
        if (number_at(*batch, 0) != expected) return;
        expected += 100;
      }
      whole += expected == kBatches * 100;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(whole, kConsumers);
  EXPECT_EQ(server.stats().accepted_connections, static_cast<std::uint64_t>(kConsumers));
}

TEST_F(ScaleTest, AThousandNames) {
  constexpr int kNames = 1000;
  Server server;
  for (int i = 0; i < kNames; ++i) server.publish("table " + std::to_string(i), Source::table(number_stream(1, i + 1)));
  Client client(server.uri());
  const auto entries = client.list();
  ASSERT_EQ(entries.size(), static_cast<std::size_t>(kNames));
  for (int i = 0; i < kNames; ++i) {
    const auto reader = client.get("table " + std::to_string(i));
    EXPECT_EQ(reader->next()->num_rows, i + 1);
    EXPECT_FALSE(reader->next());
  }
  EXPECT_EQ(server.stats().accepted_connections, 1u);
}

TEST_F(ScaleTest, NamesComeAndGoWhileTheyAreRead) {
  Server server;
  server.publish("steady", Source::table(number_stream(2000, 10)));
  std::atomic<bool> done = false;
  std::array<std::atomic<int>, 3> begun{};
  std::thread publishing([&] {
    for (std::size_t i = 0; !done; i = (i + 1) % begun.size()) {
      const std::string name = "passing " + std::to_string(i);
      const int before = begun[i];
      server.publish(name, Source::table(number_stream(20, 10)));
      while (begun[i] == before && !done) std::this_thread::yield();
      server.withdraw(name);  // while it is read
    }
  });
  std::vector<std::thread> readers;
  std::atomic<int> passing_read = 0;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] {
      Client client(server.uri());
      for (int round = 0; round < 5; ++round) {
        const auto reader = client.get("steady");
        std::int64_t expected = 0;
        while (const auto batch = reader->next()) {
          EXPECT_EQ(number_at(*batch, 0), expected);
          expected += 10;
          if (expected % 1000 != 0) continue;
          try {
            // Withdrawn or not meanwhile: what was begun comes whole.
            const auto passing = client.get("passing " + std::to_string(i));
            ++begun[static_cast<std::size_t>(i)];
            int batches = 0;
            while (passing->next()) ++batches;
            EXPECT_EQ(batches, 20);
            ++passing_read;
          } catch (const NotFoundError&) {
          }
        }
        EXPECT_EQ(expected, 20'000);
      }
    });
  }
  for (auto& reader : readers) reader.join();
  done = true;
  publishing.join();
  EXPECT_GT(passing_read, 0) << "each of the readers asked a hundred times";
}

TEST_F(ScaleTest, StatisticsTellEachConsumersWindowAndOldestLease) {
  ServerOptions options;
  options.window = 7;
  Server server(options);
  server.publish("table", Source::table(number_stream(3, 10)));
  Client client(server.uri());
  const auto reader = client.get("table");
  auto kept = reader->next();
  ServerStats stats = server.stats();
  ASSERT_EQ(stats.consumers.size(), 1u);
  EXPECT_EQ(stats.consumers[0].window, 7u);
  EXPECT_TRUE(stats.consumers[0].oldest_lease);
  while (reader->next()) {
  }
  kept.reset();
  // They are on their way; each question is a round of the server's.
  for (int round = 0; round < 100'000 && stats.consumers.at(0).leases > 0; ++round) stats = server.stats();
  EXPECT_EQ(stats.consumers.at(0).leases, 0u);
  EXPECT_FALSE(stats.consumers.at(0).oldest_lease);
}

}  // namespace
}  // namespace crossdock::session
