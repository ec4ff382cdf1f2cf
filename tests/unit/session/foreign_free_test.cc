// A client frees what was lent to another one.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "device/region_address.h"
#include "dissociated/uri.h"
#include "dissociated/wire.h"
#include "session/observe.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/log_lines.h"
#include "transport/shm.h"
#include "transport/tcp.h"

namespace crossdock::session {
namespace {

using testing::number_at;

constexpr std::int64_t kRowsOfLender = 100;

/// The transports of the client that reads and of the one that frees.
struct Pair {
  const char* reads;
  const char* frees;
};

class ForeignFree : public testing::NoLeftovers, public ::testing::WithParamInterface<Pair> {
 protected:
  void SetUp() override {
    testing::NoLeftovers::SetUp();
    ServerOptions options;
    options.uris = {"shm:", "tcp:"};
    options.log = log_.callback();
    server_.emplace(options);
    server_->publish("live", Source::factory([] { return testing::number_stream(1'000'000, kRowsOfLender); }));
  }
  void TearDown() override {
    server_.reset();
    testing::NoLeftovers::TearDown();
  }
  const std::string& uri(std::string_view scheme) const { return server_->uris().at(scheme == "shm" ? 0 : 1); }

  std::unique_ptr<transport::Connection> connect(std::string_view scheme) const {
    const std::string address = dissociated::parse_uri(uri(scheme)).address;
    return scheme == "shm" ? transport::shm_connect(address, {}, 10'000, {})
                           : transport::tcp_connect(address, {}, 10'000, {});
  }

  /// Reads what comes until the server ends the connection.
  static void read_to_the_end(transport::Connection& connection) {
    for (;;) {
      while (connection.receive()) {
      }
      if (!transport::wait_readable(connection, transport::WaitMode::kBlock, 0, {})) throw TimeoutError("nothing came");
    }
  }

  /// The stream's batch of this number.
  static void expect_numbers(const std::optional<array::RecordBatch>& batch, std::int64_t number) {
    ASSERT_TRUE(batch.has_value());
    for (std::int64_t row = 0; row < kRowsOfLender; ++row)
      ASSERT_EQ(number_at(*batch, row), number * kRowsOfLender + row);
  }

  testing::LogLines log_;  // outlives the server
  std::optional<Server> server_;
};

TEST_P(ForeignFree, EndsTheConnectionThatSentItAndNoOther) {
  Client client(uri(GetParam().reads));
  std::vector<std::uint64_t> lent{device::make_address(0, 64)};  // what tcp would lend, if it lent
  GetOptions observing;
  observing.on_batch = [&](const BatchArrival& arrival) {
    for (const dissociated::RemoteBuffer& buffer : arrival.remote) {
      if (buffer.length > 0) lent.push_back(buffer.address);
    }
  };
  const auto reader = client.get("live", observing);
  std::vector<std::optional<array::RecordBatch>> kept{reader->next(), reader->next()};
  EXPECT_EQ(lent.size() > 1, GetParam().reads == std::string_view("shm")) << "over tcp bodies go by value";
  for (const std::uint64_t address : lent) {
    const auto thief = connect(GetParam().frees);
    ASSERT_TRUE(thief->send_tagged(*thief->agreement().free_data, std::as_bytes(std::span(&address, 1)), {}));
    EXPECT_THROW(read_to_the_end(*thief), ConnectionError);
  }
  const auto n = static_cast<int>(lent.size());
  EXPECT_TRUE(log_.wait_until([&] { return log_.count("not leased on this connection") == n; }));
  // What the reader holds isn't written to again, and its stream goes on.
  for (int i = 2; i < 50; ++i) expect_numbers(reader->next(), i);
  for (std::size_t i = 0; i < kept.size(); ++i) expect_numbers(kept[i], static_cast<std::int64_t>(i));
  const ServerStats stats = server_->stats();
  EXPECT_EQ(stats.protocol_errors, static_cast<std::uint64_t>(n));
  EXPECT_EQ(stats.consumers.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Over, ForeignFree,
                         ::testing::Values(Pair{"shm", "shm"}, Pair{"tcp", "tcp"}, Pair{"shm", "tcp"},
                                           Pair{"tcp", "shm"}),
                         [](const auto& over) { return std::string(over.param.reads) + "_" + over.param.frees; });

}  // namespace
}  // namespace crossdock::session
