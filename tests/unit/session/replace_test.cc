// publish() in the place of what a name has: in one step, for those who ask and for those who are being served.

#include <atomic>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/temporary_folder.h"
#include "unit/session/support.h"

namespace crossdock::session {
namespace {

using testing::FunctionStream;
using ::testing::HasSubstr;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;

class ReplaceTest : public testing::NoLeftovers {};

/// `batches` batches of ten rows that all hold `version`.
Source version_of(std::int64_t version, int batches) {
  std::vector<array::RecordBatch> all;
  for (int i = 0; i < batches; ++i) {
    array::RecordBatch batch = number_batch(0, 10);
    auto numbers = std::make_shared<std::vector<std::int64_t>>(10, version);
    batch.buffers[1].data = numbers->data();
    batch.owner = std::make_shared<std::pair<decltype(batch.owner), decltype(numbers)>>(batch.owner, numbers);
    all.push_back(std::move(batch));
  }
  return Source::table(testing::stream_of(std::move(all)));
}

TEST_F(ReplaceTest, WithoutItANameThatIsTakenStays) {
  Server server;
  server.publish("x", Source::table(number_stream(1, 10)));
  try {
    server.publish("x", Source::table(number_stream(2, 10)));
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "\"x\" is already published, and it isn't to be replaced: withdraw it first, or publish it with "
                 "replace=True");
  }
  Client client(server.uri());
  EXPECT_EQ(client.list()[0].rows, 10);
}

TEST_F(ReplaceTest, ANameThatIsFreeIsPublished) {
  Server server;
  server.publish("x", Source::table(number_stream(1, 10)), kReplace);
  Client client(server.uri());
  EXPECT_EQ(client.list()[0].rows, 10);
}

TEST_F(ReplaceTest, TheCatalogAndTheStatisticsFollow) {
  Server server;
  server.publish("x", Source::table(number_stream(1, 10)));
  Client client(server.uri());
  EXPECT_EQ(client.list()[0].rows, 10);
  server.publish("x", Source::table(number_stream(3, 10)), kReplace);
  ASSERT_EQ(client.list().size(), 1u);
  EXPECT_EQ(client.list()[0].rows, 30);
  server.publish("x", Source::factory([] { return number_stream(3, 10); }), kReplace);
  EXPECT_EQ(client.list()[0].rows, -1);
  ASSERT_EQ(server.stats().sources.size(), 1u);
  EXPECT_EQ(server.stats().sources[0].kind, "factory");
}

TEST_F(ReplaceTest, StreamsUnderWayAndBatchesKeepTheOldOne) {
  ServerOptions options;
  options.window = 2;
  Server server(options);
  server.publish("table", version_of(1, 50));
  std::atomic<int> made = 0;
  server.publish("live", Source::factory([&] {
                   ++made;
                   return number_stream(50, 100);
                 }));
  Client client(server.uri());
  const auto table = client.get("table");
  const auto live = client.get("live");
  const auto first = table->next();
  EXPECT_EQ(number_at(*live->next(), 0), 0);
  server.publish("table", version_of(2, 1), kReplace);
  server.publish("live", version_of(2, 1), kReplace);

  int batches = 1;
  while (const auto batch = table->next()) {
    EXPECT_EQ(number_at(*batch, 9), 1);
    ++batches;
  }
  EXPECT_EQ(batches, 50);
  for (int i = 1; i < 50; ++i) EXPECT_EQ(number_at(*live->next(), 0), i * 100);
  EXPECT_FALSE(live->next());
  EXPECT_EQ(made, 1);
  EXPECT_EQ(number_at(*first, 0), 1);
  for (const char* name : {"table", "live"}) EXPECT_EQ(number_at(*client.get(name)->next(), 0), 2);
}

TEST_F(ReplaceTest, ASourceThatFailsLeavesTheOldOne) {
  const testing::TemporaryFolder folder;
  Server server;
  server.publish("x", version_of(1, 1));
  const auto fails = [&](Source source) {
    EXPECT_ANY_THROW(server.publish("x", std::move(source), kReplace));
    Client client(server.uri());
    EXPECT_EQ(number_at(*client.get("x")->next(), 0), 1);
    EXPECT_EQ(client.list().size(), 1u);
  };
  int left = 2;
  fails(Source::table(std::make_unique<FunctionStream>(number_batch(0, 0).schema, [&] {
    if (--left == 0) throw std::runtime_error("the disk is gone");
    return std::optional(number_batch(0, 10));
  })));
  fails(Source::table(nullptr));
  fails(Source::file(folder / "absent.arrow"));
}

TEST_F(ReplaceTest, ConsumersFindTheOldOrTheNewAndNeverNeither) {
  constexpr int kVersions = 300;
  Server server;
  server.publish("x", version_of(0, 3));
  std::atomic<bool> done = false;
  std::atomic<int> gets = 0;
  std::vector<std::thread> consumers;
  for (int i = 0; i < 2; ++i) {
    consumers.emplace_back([&] {
      Client client(server.uri());
      std::int64_t newest = 0;
      while (!done) {
        const auto reader = client.get("x");
        std::int64_t version = -1;
        int batches = 0;
        while (const auto batch = reader->next()) {
          if (version < 0) version = number_at(*batch, 0);
          for (std::int64_t row = 0; row < 10; ++row) ASSERT_EQ(number_at(*batch, row), version);
          ++batches;
        }
        ASSERT_EQ(batches, 3);
        ASSERT_GE(version, newest) << "time went backwards";
        newest = version;
        ASSERT_EQ(client.list().size(), 1u);
        ++gets;
      }
    });
  }
  for (int version = 1; version <= kVersions; ++version) {
    server.publish("x", version_of(version, 3), kReplace);
    // So that consumers come between: each publish() waits for one of theirs.
    for (const int before = gets; version % 10 == 0 && gets == before && !::testing::Test::HasFailure();) {
      std::this_thread::yield();
    }
  }
  done = true;
  for (std::thread& consumer : consumers) consumer.join();
  Client client(server.uri());
  EXPECT_EQ(number_at(*client.get("x")->next(), 0), kVersions);
}

TEST_F(ReplaceTest, ManyAtOnceLeaveOneOfThem) {
  Server server;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&server, i] {
      for (int n = 0; n < 50; ++n) server.publish("x", version_of(i, 1), kReplace);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Client client(server.uri());
  EXPECT_EQ(client.list().size(), 1u);
  EXPECT_TRUE(client.get("x")->next());
}

TEST_F(ReplaceTest, WhatIsReplacedIsLetGo) {
  Server server;
  const auto owner = std::make_shared<int>(0);
  server.publish("x", Source::factory([owner] { return number_stream(1, 1); }));
  EXPECT_GT(owner.use_count(), 1);
  server.publish("x", Source::table(number_stream(1, 1)), kReplace);
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace crossdock::session
