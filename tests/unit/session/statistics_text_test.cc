#include "session/statistics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

constexpr std::size_t kRoom = 1 << 18;

SourceStats source(std::string name, std::uint64_t streams) {
  SourceStats stats;
  stats.name = std::move(name);
  stats.kind = "table";
  stats.streams = streams;
  return stats;
}

ServerStats some_stats() {
  ServerStats stats;
  stats.version = "1.2.3";
  stats.pid = std::numeric_limits<std::uint32_t>::max();
  stats.uptime = std::chrono::milliseconds(12);
  stats.uris = {"shm:a", "tcp://b:1"};
  stats.sources.push_back(source("a \"name\"\n", 6));
  stats.sources.back().rows = 3;
  stats.sources.push_back(source(std::string("\xff\x00\"", 3), 7));
  ConsumerStats consumer;
  consumer.id = 1ull << 40;
  consumer.pid = 7;
  consumer.previous = "\xff";
  consumer.peer = "a peer";
  consumer.name = "a \"name\"\n";
  consumer.leased_bytes = 1ull << 62;
  consumer.oldest_lease = std::chrono::milliseconds(8);
  consumer.way = transport::Way::kRead;
  consumer.why = "because";
  stats.consumers.push_back(consumer);
  stats.connections = 1;
  stats.accepted_connections = 9;
  stats.rejected_connections = {{"full", 10}, {"late", 0}};
  stats.totals.first_batch.add(std::chrono::nanoseconds(1'000'000));
  stats.totals.batch.add(std::chrono::nanoseconds(5'000'000), 3);
  stats.relay.emplace();
  stats.relay->hits = 11;
  stats.relay->upstream = "tcp://c:2";
  return stats;
}

TEST(StatisticsText, WhatIsWrittenIsReadBack) {
  const ServerStats sent = some_stats();
  const ServerStats read = statistics_in(statistics_text(sent, kRoom));
  EXPECT_EQ(read.version, sent.version);
  EXPECT_EQ(read.pid, sent.pid);
  EXPECT_EQ(read.uris, sent.uris);
  ASSERT_EQ(read.sources.size(), 2u);
  EXPECT_EQ(read.sources[0].name, sent.sources[0].name);
  EXPECT_EQ(read.sources[0].rows, 3);
  EXPECT_EQ(read.sources[1].name, sent.sources[1].name);
  EXPECT_EQ(read.sources[1].rows, -1);
  ASSERT_EQ(read.consumers.size(), 1u);
  EXPECT_EQ(read.consumers[0].id, 1ull << 40);
  EXPECT_EQ(read.consumers[0].previous, "\xff");
  EXPECT_EQ(read.consumers[0].name, sent.consumers[0].name);
  EXPECT_EQ(read.consumers[0].leased_bytes, 1ull << 62);
  EXPECT_EQ(read.consumers[0].oldest_lease, std::chrono::milliseconds(8));
  EXPECT_EQ(read.consumers[0].way, transport::Way::kRead);
  EXPECT_EQ(read.connections, 1u);
  EXPECT_EQ(read.accepted_connections, 9u);
  EXPECT_EQ(read.rejected_connections, sent.rejected_connections);
  EXPECT_EQ(read.totals.first_batch, sent.totals.first_batch);
  EXPECT_EQ(read.totals.batch, sent.totals.batch);
  ASSERT_TRUE(read.relay);
  EXPECT_EQ(read.relay->hits, 11u);
  EXPECT_EQ(read.relay->upstream, "tcp://c:2");
  EXPECT_FALSE(statistics_in(statistics_text({}, kRoom)).relay);
}

TEST(StatisticsText, TextThatIsNotUtf8IsSentPrintable) {
  ServerStats stats;
  stats.uris = {"shm:/tmp/\xff"};
  EXPECT_EQ(statistics_in(statistics_text(stats, kRoom)).uris.front(), "shm:/tmp/\\xff");
}

TEST(StatisticsText, MembersThatAreNotKnownAreSkipped) {
  const ServerStats read = statistics_in(
      R"({"new": {"a": [1, {"b": null}]}, "connections": 3, "consumers": [{"more": [], "leases": 4}], "x": "y"})");
  EXPECT_EQ(read.connections, 3u);
  EXPECT_EQ(read.consumers.at(0).leases, 4u);
  EXPECT_EQ(statistics_in("{}").connections, 0u);
}

TEST(StatisticsText, WhatIsNotAsSpecifiedIsRefused) {
  const std::string deep = "{\"x\": " + std::string(100'000, '[') + "}";
  std::string many = "{\"uris\": [\"\"";
  for (std::size_t i = 0; i < kMostListed; ++i) many += ",\"\"";
  many += "]}";
  std::string reasons = "{\"rejected_connections\": {";
  for (std::size_t i = 0; i <= kMostListed; ++i) reasons += "\"" + std::to_string(i) + "\":1,";
  reasons += "\"a\":1}}";
  std::string entries = "{\"consumers\": [{}";
  for (std::size_t i = 0; i < kMostListed; ++i) entries += ",{}";
  entries += "]}";
  for (const std::string& wrong : {std::string(),
                                   std::string("[]"),
                                   std::string("{"),
                                   std::string("{} x"),
                                   std::string(R"({"pid": -1})"),
                                   std::string(R"({"pid": 4294967296})"),
                                   std::string(R"({"connections": "1"})"),
                                   std::string(R"({"connections": 1.5})"),
                                   std::string(R"({"connections": 9223372036854775808})"),
                                   std::string("{\"version\": \"\xff\"}"),
                                   std::string(R"({"version": null})"),
                                   std::string(R"({"uris": "a"})"),
                                   std::string(R"({"consumers": {}})"),
                                   std::string(R"({"consumers": [1]})"),
                                   std::string(R"({"consumers": [{"way": "by bus"}]})"),
                                   std::string(R"({"sources": [{"name": ["a b"]}]})"),
                                   std::string(R"({"sources": [{"name": ["YQ", "YQ"]}]})"),
                                   std::string(R"({"batch": {"counts": [1, 2]}})"),
                                   std::string(R"({"batch": {"counts": [1,1,1,1,1,1,1,1,1,1,1,1,1,1]}})"),
                                   std::string(R"({"relay": 1})"),
                                   deep,
                                   many,
                                   reasons,
                                   entries}) {
    EXPECT_THROW(statistics_in(wrong), InvalidDataError) << wrong.substr(0, 60);
  }
}

TEST(StatisticsText, AnAnswerKeepsWithinItsRoom) {
  ServerStats stats;
  for (int i = 0; i < 1000; ++i) {
    ConsumerStats consumer;
    consumer.pid = static_cast<std::uint32_t>(i);
    consumer.bytes = static_cast<std::uint64_t>(i);
    consumer.leases = i == 500 ? 1 : 0;
    stats.consumers.push_back(consumer);
    stats.sources.push_back(source(std::string(100, '\x01'), static_cast<std::uint64_t>(i)));
  }
  for (const std::size_t room : {std::size_t{1} << 20, std::size_t{20'000}, std::size_t{5'000}}) {
    const std::string text = statistics_text(stats, room);
    EXPECT_LE(text.size(), room);
    const ServerStats read = statistics_in(text);
    EXPECT_LE(read.consumers.size(), kMostListed);
    EXPECT_EQ(read.consumers.size() + read.consumers_left_out, 1000u);
    EXPECT_EQ(read.sources.size() + read.sources_left_out, 1000u);
    ASSERT_GT(read.consumers.size(), 1u);
    EXPECT_EQ(read.consumers[0].pid, 500u) << "who holds something comes first";
    EXPECT_EQ(read.consumers[1].pid, 999u) << "then who was sent the most";
    EXPECT_EQ(read.sources[0].streams, 999u);
  }
}

TEST(DurationHistogram, HasBucketsOfALogarithmicScale) {
  for (const auto& [us, bucket] : std::initializer_list<std::pair<std::int64_t, std::size_t>>{{0, 0},
                                                                                              {16, 0},
                                                                                              {17, 1},
                                                                                              {64, 1},
                                                                                              {65, 2},
                                                                                              {256, 2},
                                                                                              {257, 3},
                                                                                              {67'108'864, 11},
                                                                                              {67'108'865, 12},
                                                                                              {1ll << 40, 12}}) {
    DurationHistogram histogram;
    histogram.add(std::chrono::microseconds(us));
    EXPECT_EQ(histogram.counts[bucket], 1u) << us;
    EXPECT_EQ(histogram.sum, std::chrono::microseconds(us));
  }
  EXPECT_EQ(DurationHistogram::limit(11), std::chrono::microseconds(67'108'864));
  DurationHistogram histogram;
  histogram.add(std::chrono::milliseconds(1), 0);
  EXPECT_EQ(histogram, DurationHistogram());
  histogram.add(std::chrono::nanoseconds(-5));
  histogram.add(std::chrono::milliseconds(3), 3);
  EXPECT_EQ(histogram.counts[0], 1u) << "a clock that goes back counts as no time";
  EXPECT_EQ(histogram.counts[3], 3u);
  EXPECT_EQ(histogram.sum, std::chrono::milliseconds(3));
}

}  // namespace
}  // namespace crossdock::session
