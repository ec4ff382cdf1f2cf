// What one consumer may take of a server, over all its streams and connections.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "dissociated/uri.h"
#include "dissociated/wire.h"
#include "support/batches.h"
#include "support/eventually.h"
#include "support/leftovers.h"
#include "support/process.h"
#include "transport/shm.h"
#include "unit/session/support.h"

namespace crossdock::session {
namespace {

using testing::FunctionStream;
using ::testing::HasSubstr;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;
using testing::open_descriptors;

class ConsumerTest : public testing::NoLeftovers {};

// Bytes of live streams' memory that this process has mapped for writing: those of its server.
std::uint64_t live_bytes() {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    char rights[8] = {};
    if (line.find("crossdock-live") == line.npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, rights) == 3 && rights[1] == 'w') bytes += to - from;
  }
  return bytes;
}

int threads() {
  std::ifstream status("/proc/self/status");
  int count = 0;
  for (std::string line; std::getline(status, line);) {
    if (std::sscanf(line.c_str(), "Threads: %d", &count) == 1) break;
  }
  return count;
}

// Producers that stand still until go().
class ProducerGate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++came_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  /// Until so many have come.
  bool wait_for(int producers) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return came_ >= producers; });
  }
  void go() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int came_ = 0;
};

/// Lets the producers go before their server, which waits for them.
class GoAtEnd {
 public:
  explicit GoAtEnd(std::shared_ptr<ProducerGate> gate) : gate_(std::move(gate)) {}
  ~GoAtEnd() { gate_->go(); }
  GoAtEnd(const GoAtEnd&) = delete;
  GoAtEnd& operator=(const GoAtEnd&) = delete;

 private:
  std::shared_ptr<ProducerGate> gate_;
};

std::unique_ptr<array::BatchStream> blocked_stream(const std::shared_ptr<ProducerGate>& gate) {
  return std::make_unique<FunctionStream>(number_batch(0, 0).schema, [gate]() -> std::optional<array::RecordBatch> {
    gate->pass();
    return std::nullopt;
  });
}

constexpr std::uint64_t kLiveLimit = 4 << 20;

// Reads a stream of each connection in turn, and keeps a batch of each. Returns how many bytes live streams' memory
// has at most.
std::uint64_t hoard(const std::vector<std::unique_ptr<Client>>& clients, int streams,
                    std::vector<array::RecordBatch>* kept) {
  std::uint64_t most = 0;
  for (int i = 0; i < streams; ++i) {
    const auto reader = clients[static_cast<std::size_t>(i) % clients.size()]->get("live");
    bool first = true;
    while (auto batch = reader->next()) {
      if (std::exchange(first, false)) kept->push_back(*std::move(batch));
    }
    most = std::max(most, live_bytes());
  }
  return most;
}

TEST_F(ConsumerTest, StreamAfterStreamDoesNotPassTheLeaseLimit) {
  ServerOptions options;
  options.lease_limit = kLiveLimit;
  Server server(options);
  server.publish("live", Source::factory([] { return number_stream(3, 1000); }));
  std::vector<std::unique_ptr<Client>> clients;
  clients.push_back(std::make_unique<Client>(server.uri()));
  std::vector<array::RecordBatch> kept;
  EXPECT_LE(hoard(clients, 300, &kept), kLiveLimit + (1 << 20));
  ASSERT_EQ(kept.size(), 300u);
  for (const array::RecordBatch& batch : kept) EXPECT_EQ(number_at(batch, 999), 999);
}

TEST_F(ConsumerTest, TheConnectionsOfAProcessShareOneLimit) {
  ServerOptions options;
  options.lease_limit = kLiveLimit;
  Server server(options);
  server.publish("live", Source::factory([] { return number_stream(40, 20'000); }));  // some 12 MB
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<Client>(server.uri()));
  std::vector<std::unique_ptr<Reader>> readers;
  std::vector<array::RecordBatch> kept;
  std::uint64_t most = 0;
  for (const auto& client : clients) {
    const auto reader = client->get("live");
    while (auto batch = reader->next()) kept.push_back(*std::move(batch));
    most = std::max(most, live_bytes());
  }
  EXPECT_LE(most, kLiveLimit + (1 << 20));
  EXPECT_EQ(kept.size(), 160u) << "the rest came by value";
  std::uint64_t leased = 0;
  for (const ConsumerStats& consumer : server.stats().consumers) leased += consumer.leased_bytes;
  EXPECT_LE(leased, kLiveLimit + (1 << 20)) << "two batches more at most";
  EXPECT_GT(leased, kLiveLimit / 2);
}

// The text of the next error message.
std::string error_from(transport::Connection& connection) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto message = connection.receive();
    if (!message) {
      transport::wait_readable(connection, transport::WaitMode::kBlock,
                               deadline.time_since_epoch() / std::chrono::nanoseconds(1), {});
    } else if (!message->tagged && dissociated::read_prefix(message->bytes).type == dissociated::MessageType::kError) {
      return std::string(as_text(message->bytes.subspan(5)));
    }
  }
  return "nothing came";
}

TEST_F(ConsumerTest, AbandonedStreamsOfASourceThatStandsStillLeaveFewThreadsAndConnections) {
  const auto gate = std::make_shared<ProducerGate>();
  ServerOptions options;
  options.max_connections = 100;
  Server server(options);
  server.publish("blocked", Source::factory([gate] { return blocked_stream(gate); }));
  const GoAtEnd go_at_end(gate);
  server.publish("table", Source::table(number_stream(1, 1)));
  const int before = threads();
  const auto connects = [&] {
    try {
      return Client(server.uri()).get("table")->next().has_value();
    } catch (const ConnectionError&) {  // the server hasn't seen yet that others have left
      return false;
    }
  };
  for (int i = 0; i < 2000; ++i) {
    try {
      ask(*connect_by_shm(server), "blocked");
    } catch (const ConnectionError&) {
    }
  }
  EXPECT_LE(threads(), before + 64);
  EXPECT_TRUE(testing::eventually(connects))
      << "half of the threads at most are in the source, and nothing else counts";
}

TEST_F(ConsumerTest, AbandonedStreamsOfASourceThatStandsStillCountAsConnectionsUntilItReturns) {
  const auto gate = std::make_shared<ProducerGate>();
  ServerOptions options;
  options.max_connections = 20;
  Server server(options);
  server.publish("blocked", Source::factory([gate] { return blocked_stream(gate); }));
  const GoAtEnd go_at_end(gate);
  server.publish("table", Source::table(number_stream(1, 1)));
  for (int i = 0; i < 20; ++i) {
    const auto connection = connect_by_shm(server);
    ask(*connection, "blocked");
    ASSERT_TRUE(gate->wait_for(i + 1));
  }
  try {
    const Client client(server.uri());
    ADD_FAILURE() << "the sources didn't count";
  } catch (const ConnectionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("max_connections"));
  }
  gate->go();
  EXPECT_TRUE(testing::eventually([&] {
    try {
      return Client(server.uri()).get("table")->next().has_value();
    } catch (const ConnectionError&) {
      return false;
    }
  })) << "sources that have ended don't count any more";
}

TEST_F(ConsumerTest, AConnectionThatCancelsStreamAfterStreamIsRefusedByName) {
  const auto gate = std::make_shared<ProducerGate>();
  ServerOptions options;
  options.max_connections = 4;
  Server server(options);
  server.publish("blocked", Source::factory([gate] { return blocked_stream(gate); }));
  const GoAtEnd go_at_end(gate);
  const auto connection = connect_by_shm(server);
  const dissociated::PrefixBytes cancel = dissociated::write_prefix(dissociated::MessageType::kEndOfStream, 0);
  for (int i = 0; i < 4; ++i) {
    ask(*connection, "blocked");
    ASSERT_TRUE(gate->wait_for(i + 1));
    ASSERT_TRUE(connection->send(cancel, {}));
    EXPECT_THAT(error_from(*connection), HasSubstr("ClosedError"));
  }
  ask(*connection, "blocked");
  EXPECT_THAT(error_from(*connection), ::testing::AllOf(HasSubstr("LeaseLimitError"), HasSubstr("max_connections")));
}

TEST_F(ConsumerTest, StreamsAtOnceHaveALimitOverAllConnectionsAndHeldOnesCount) {
  ServerOptions options;
  options.max_streams = 5;
  Server server(options);
  server.publish("table", Source::table(number_stream(1, 10)));
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<array::RecordBatch> kept;
  const auto keep_one = [&] {
    clients.push_back(std::make_unique<Client>(server.uri()));
    const auto reader = clients.back()->get("table");
    while (auto batch = reader->next()) kept.push_back(*std::move(batch));
  };
  for (int i = 0; i < 5; ++i) keep_one();
  try {
    keep_one();
    FAIL() << "a stream over the limit";
  } catch (const LeaseLimitError& error) {
    EXPECT_THAT(error.what(), HasSubstr("max_streams is 5, and this consumer already has 5: a stream counts"));
  }
  kept.pop_back();
  keep_one();
}

TEST_F(ConsumerTest, AConsumerWhoseSourcesStandStillTakesHalfOfTheThreadsAndIsToldSo) {
  // Another process is another consumer.
  testing::ChildProcess other([](const testing::ChildProcess::Line& line) {
    Client client(line.hear());
    const auto reader = client.get("quick");
    int batches = 0;
    while (reader->next()) ++batches;
    return batches;
  });
  const auto gate = std::make_shared<ProducerGate>();
  ServerOptions options;
  options.source_threads = 4;
  Server server(options);
  server.publish("blocked", Source::factory([gate] { return blocked_stream(gate); }));
  const GoAtEnd go_at_end(gate);
  server.publish("quick", Source::factory([] { return number_stream(20, 10); }));
  std::vector<std::unique_ptr<transport::Connection>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(connect_by_shm(server));
    ask(*waiting.back(), "blocked");
  }
  ASSERT_TRUE(gate->wait_for(2));
  const auto one_more = connect_by_shm(server);
  ask(*one_more, "blocked");
  other.line().say(server.uri());
  EXPECT_EQ(other.wait(), 20) << "which has threads of its own share";
  EXPECT_THAT(error_from(*one_more),
              ::testing::AllOf(HasSubstr("ResourceError"), HasSubstr("2 of the server's 4 threads"),
                               HasSubstr("source_threads")));
}

TEST_F(ConsumerTest, SourcesTakeTurnsOnOneThread) {
  ServerOptions options;
  options.source_threads = 1;
  Server server(options);
  server.publish("live", Source::factory([] { return number_stream(200, 10); }));
  std::vector<std::thread> consumers;
  for (int i = 0; i < 8; ++i) {
    consumers.emplace_back([&] {
      Client client(server.uri());
      const auto reader = client.get("live");
      int batches = 0;
      while (const auto batch = reader->next()) EXPECT_EQ(number_at(*batch, 9), 10 * batches++ + 9);
      EXPECT_EQ(batches, 200);
    });
  }
  for (std::thread& consumer : consumers) consumer.join();
}

}  // namespace
}  // namespace crossdock::session
