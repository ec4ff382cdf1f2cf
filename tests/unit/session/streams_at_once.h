#pragma once

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"

namespace crossdock::session {

/// A table and a live stream, which one thread takes from in turn, by messages and by reads, beside another client.
inline void expect_streams_cross_at_once(const ServerOptions& server_options, const ClientOptions& client_options) {
  Server server(server_options);
  server.publish("table", Source::table(testing::number_stream(30, 20'000)));
  server.publish("live", Source::factory([] { return testing::number_stream(60, 10'000); }));
  std::thread other([&] {
    Client client(server.uri(), client_options);
    const auto table = client.get("table");
    for (int i = 0; i < 30; ++i) {
      const auto batch = table->next();
      ASSERT_TRUE(batch) << i;
      EXPECT_EQ(testing::number_at(*batch, 0), i * 20'000);
      EXPECT_EQ(testing::number_at(*batch, 19'999), (i + 1) * 20'000 - 1);
    }
    EXPECT_FALSE(table->next());
  });
  Client client(server.uri(), client_options);
  ClientOptions of_reads = client_options;
  of_reads.way = transport::Way::kRead;
  Client reads(server.uri(), of_reads);
  // One thread takes from each in turn.
  const auto live = client.get("live");
  const std::array tables = {client.get("table"), reads.get("table"), reads.get("table")};
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(testing::number_at(*live->next(), 9999), (i + 1) * 10'000 - 1);
    if (i % 2 == 1) continue;
    for (const auto& table : tables) EXPECT_EQ(testing::number_at(*table->next(), 19'999), (i / 2 + 1) * 20'000 - 1);
  }
  EXPECT_FALSE(live->next());
  for (const auto& table : tables) EXPECT_FALSE(table->next());
  other.join();
}

}  // namespace crossdock::session
