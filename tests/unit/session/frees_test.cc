// Frees of a client while the server doesn't read, and who sends them when no other call follows.
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/bytes.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "dissociated/uri.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/log_lines.h"
#include "transport/shm.h"

namespace crossdock::session {
namespace {

using testing::number_at;
using testing::number_stream;

constexpr std::uint64_t kSmallRing = 64 << 10;
constexpr int kFew = 10;            // batches
constexpr int kManyBatches = 5000;  // their addresses fill a small ring some times over

std::shared_ptr<const transport::TransportRegistry> shm_of(std::uint64_t ring_bytes) {
  auto made = std::make_shared<transport::TransportRegistry>();
  made->add(transport::make_shm_transport({.ring_bytes = ring_bytes}));
  return made;
}

/// One row of `columns` columns, int64.
array::RecordBatch wide_batch(int columns) {
  static const std::int64_t value = 7;
  array::RecordBatch batch;
  batch.schema = testing::make_schema({static_cast<std::size_t>(columns), {"x", array::TypeId::kInt64}});
  batch.num_rows = 1;
  for (int i = 0; i < columns; ++i) {
    batch.nodes.push_back({1, 0, 0});
    batch.buffers.push_back({nullptr, 0});
    batch.buffers.push_back({&value, sizeof value});
  }
  return batch;
}

class FreesTest : public testing::NoLeftovers {
 protected:
  void SetUp() override {
    testing::NoLeftovers::SetUp();
    ServerOptions options;
    options.transports = shm_of(kSmallRing);
    options.log = [this](LogLevel level, std::string_view text) {
      lines_.callback()(level, text);
      if (text.find("known tags are want_data") == std::string_view::npos) return;
      stopped_.set_value();
      go_.get_future().wait();
    };
    server_.emplace(std::move(options));
    server_->publish("numbers", Source::table(number_stream(kManyBatches, 1)));
    server_->publish("few", Source::table(number_stream(kFew, 1)));
  }
  void TearDown() override {
    server_.reset();
    testing::NoLeftovers::TearDown();
  }

  /// Has the server's thread stand still until resume(): in the log, over a client that breaks the rules.
  void stop_the_server() {
    const auto bad = transport::shm_connect(dissociated::parse_uri(server_->uri()).address, {}, 10'000, {});
    const transport::Agreement& agreement = bad->agreement();
    ASSERT_TRUE(bad->send_tagged(agreement.want_data ^ *agreement.free_data ^ 1, as_bytes("x"), {}));
    stopped_.get_future().wait();
  }
  void resume() { go_.set_value(); }

  std::vector<array::RecordBatch> all_batches(Client& client) {
    std::vector<array::RecordBatch> batches;
    const auto reader = client.get("numbers");
    while (auto batch = reader->next()) batches.push_back(*std::move(batch));
    return batches;
  }
  /// Whether the server has seen the client's connection end, with everything that was lent over it.
  bool all_came_back() {
    return lines_.wait_until([&] { return lines_.count("has closed the connection") == 1; }) &&
           server_->stats().consumers.empty();
  }

  testing::LogLines lines_;  // outlive the server
  std::promise<void> stopped_;
  std::promise<void> go_;
  std::optional<Server> server_;
};

TEST_F(FreesTest, AnIdleClientThatDropsMoreThanTheRingTakesLeavesNothingOut) {
  Client client(server_->uri());
  std::vector<array::RecordBatch> kept = all_batches(client);
  ASSERT_EQ(kept.size(), static_cast<std::size_t>(kManyBatches));
  stop_the_server();
  kept.clear();
  resume();
  EXPECT_TRUE(all_came_back());
  EXPECT_EQ(number_at(*client.get("numbers")->next(), 0), 0) << "over another connection";
}

TEST_F(FreesTest, NorDoesOneThatDroppedThemBeforeItHadTheStreamsEnd) {
  Client client(server_->uri());
  std::vector<array::RecordBatch> kept = all_batches(client);
  const auto reader = client.get("few");  // over the same connection
  ASSERT_EQ(server_->stats().consumers.size(), 1u);
  while (!server_->stats().consumers.at(0).name.empty()) {  // it sends the whole stream, which the ring has room for
  }
  stop_the_server();
  kept.clear();
  int batches = 0;
  while (reader->next()) ++batches;
  EXPECT_EQ(batches, kFew);
  resume();
  EXPECT_TRUE(all_came_back());
}

// Its messages are as short as the server's limit asks for.
TEST(LongFrees, GoInPartsToAServerThatAcceptsShortMessagesOnly) {
  constexpr int kColumns = 100;
  auto transports = std::make_shared<transport::TransportRegistry>();
  transports->add(transport::make_shm_transport({.max_request = 64}));
  ServerOptions options;
  options.transports = transports;
  Server server(std::move(options));
  server.publish("wide", Source::table(testing::stream_of({wide_batch(kColumns)})));
  Client client(server.uri());
  const auto reader = client.get("wide");
  auto batch = reader->next();
  ServerStats stats = server.stats();
  ASSERT_EQ(stats.consumers.at(0).leases, static_cast<std::size_t>(kColumns));
  batch.reset();
  // They are on their way; each question is a round of the server's.
  for (int round = 0; round < 100'000 && stats.consumers.at(0).leases > 0; ++round) stats = server.stats();
  EXPECT_EQ(stats.consumers.at(0).leases, 0u);
  EXPECT_FALSE(reader->next());
}

}  // namespace
}  // namespace crossdock::session
