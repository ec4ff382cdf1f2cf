#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/log_lines.h"

namespace crossdock::session {
namespace {

using testing::FunctionStream;
using ::testing::HasSubstr;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;

/// Of all threads of this process, in ns.
std::int64_t processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

class LiveTest : public testing::NoLeftovers {};

TEST_F(LiveTest, AOneShotStreamGoesToOneConsumer) {
  Server server;
  server.publish("once", Source::live(number_stream(20, 100)));
  Client client(server.uri());
  const auto reader = client.get("once");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(number_at(*reader->next(), 0), i * 100);
  EXPECT_FALSE(reader->next().has_value());
  EXPECT_THROW(client.get("once"), ConsumedError);
}

TEST_F(LiveTest, AFactoryMakesAFreshStreamForEach) {
  std::atomic<int> made = 0;
  Server server;
  server.publish("fresh", Source::factory([&] {
                   ++made;
                   return number_stream(3, 10);
                 }));
  Client client(server.uri());
  for (int i = 0; i < 3; ++i) {
    const auto reader = client.get("fresh");
    int batches = 0;
    while (reader->next()) ++batches;
    EXPECT_EQ(batches, 3);
  }
  EXPECT_EQ(made, 3);
}

TEST_F(LiveTest, MemoryIsUsedAgainOnlyWhenItWasGivenBack) {
  ServerOptions options;
  options.lease_limit = 64 << 10;
  Server server(options);
  server.publish("much", Source::factory([] { return number_stream(500, 1000); }));  // some 6 MB in all
  Client client(server.uri());
  const auto reader = client.get("much");
  std::optional<array::RecordBatch> before;
  std::int64_t expected = 0;
  while (auto batch = reader->next()) {
    EXPECT_EQ(number_at(*batch, 0), expected);
    EXPECT_EQ(number_at(*batch, 999), expected + 999);
    if (before) {
      EXPECT_EQ(number_at(*before, 0), expected - 1000) << "a live batch was overwritten";
    }
    expected += 1000;
    before = std::move(batch);
  }
  EXPECT_EQ(expected, 500'000);
}

TEST_F(LiveTest, AHoarderGetsTheRestByValueAndTheWholeStream) {
  ServerOptions options;
  options.lease_limit = 64 << 10;
  Server server(options);
  server.publish("much", Source::factory([] { return number_stream(500, 1000); }));
  Client client(server.uri());
  const auto reader = client.get("much");
  std::vector<array::RecordBatch> hoard;
  while (auto batch = reader->next()) hoard.push_back(*std::move(batch));
  ASSERT_EQ(hoard.size(), 500u);
  for (std::size_t i = 0; i < hoard.size(); ++i) {
    EXPECT_EQ(number_at(hoard[i], 0), static_cast<std::int64_t>(i) * 1000);
    EXPECT_EQ(number_at(hoard[i], 999), static_cast<std::int64_t>(i) * 1000 + 999);
  }
  const ServerStats stats = server.stats();
  ASSERT_EQ(stats.consumers.size(), 1u);
  EXPECT_LE(stats.consumers[0].leased_bytes, options.lease_limit);
  EXPECT_GT(stats.consumers[0].leased_bytes, 0u);
  EXPECT_EQ(stats.consumers[0].leased_bytes + stats.consumers[0].bytes_by_value, stats.consumers[0].bytes);
}

TEST_F(LiveTest, WhoGivesBackAfterHavingHoardedGetsSharedMemoryAgain) {
  ServerOptions options;
  options.lease_limit = 64 << 10;
  Server server(options);
  server.publish("much", Source::factory([] { return number_stream(500, 1000); }));
  Client client(server.uri());
  const auto reader = client.get("much");
  std::vector<array::RecordBatch> hoard;
  for (int i = 0; i < 50; ++i) hoard.push_back(*reader->next());
  const std::uint64_t by_value = server.stats().consumers[0].bytes_by_value;
  EXPECT_GT(by_value, 0u);
  hoard.clear();
  int rest = 0;
  while (reader->next()) ++rest;
  EXPECT_EQ(rest, 450);
  // What had been queued by value while it hoarded, and not much more.
  EXPECT_LT(server.stats().consumers[0].bytes_by_value - by_value, 300u * 8000u);
}

TEST_F(LiveTest, AReaderThatIsDroppedInMidStreamEndsItsSourceAlsoWhileABatchIsHeld) {
  Server server;
  std::promise<void> gone;
  std::future<void> released = gone.get_future();
  server.publish("endless", Source::factory([&gone] {
                   const std::shared_ptr<void> held(nullptr, [&gone](void*) { gone.set_value(); });
                   return std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                           [held] { return std::optional(number_batch(7, 100)); });
                 }));
  Client client(server.uri());
  auto reader = client.get("endless");
  const array::RecordBatch kept = *reader->next();
  reader.reset();
  EXPECT_EQ(released.wait_for(std::chrono::seconds(20)), std::future_status::ready) << "nobody asks for its next batch";
  EXPECT_EQ(number_at(kept, 0), 7);
}

TEST_F(LiveTest, ALoopThatHoldsOneBatchWhileItAsksForTheNextNeverStarves) {
  ServerOptions options;
  options.lease_limit = 1;
  options.lease_patience = std::chrono::milliseconds(300);
  Server server(options);
  server.publish("much", Source::factory([] { return number_stream(20, 1000); }));
  Client client(server.uri());
  const auto reader = client.get("much");
  std::optional<array::RecordBatch> in_hand;
  int batches = 0;
  while (auto next = reader->next()) {
    in_hand = std::move(next);
    ++batches;
  }
  EXPECT_EQ(batches, 20);
  EXPECT_EQ(server.stats().consumers.at(0).bytes_by_value, 0U);
}

// The source waits in its producer meanwhile, not for memory: its connection has nothing to do.
TEST_F(LiveTest, AConsumerThatHoldsItsBatchesCostsNoProcessorTime) {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  ServerOptions options;
  options.lease_limit = 64 << 10;
  options.lease_patience = std::chrono::milliseconds(10);
  Server server(options);
  server.publish("much", Source::factory([&opened] {
                   auto n = std::make_shared<int>(0);
                   return std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                           [n, &opened]() -> std::optional<array::RecordBatch> {
                                                             if (*n == 50) {
                                                               opened.wait();
                                                               return std::nullopt;
                                                             }
                                                             return number_batch((*n)++ * 1000, 1000);
                                                           });
                 }));
  Client client(server.uri());
  const auto reader = client.get("much");
  std::vector<array::RecordBatch> hoard;
  while (hoard.size() < 50) hoard.push_back(*reader->next());
  EXPECT_GT(server.stats().consumers.at(0).bytes_by_value, 0U) << "it has been at its limit";
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what is left to do is done
  constexpr std::int64_t kSpan = 500'000'000;                   // ns
  const std::int64_t before = processor_time();
  std::this_thread::sleep_for(std::chrono::nanoseconds(kSpan));
  EXPECT_LT(processor_time() - before, kSpan / 4);
  gate.set_value();
  EXPECT_FALSE(reader->next());
}

TEST_F(LiveTest, WithEndlessPatienceAHoarderIsWaitedFor) {
  ServerOptions options;
  options.lease_limit = 64 << 10;
  options.lease_patience.reset();
  Server server(options);
  server.publish("much", Source::factory([] { return number_stream(50, 1000); }));
  Client client(server.uri());
  GetOptions get;
  get.timeout = std::chrono::milliseconds(50);
  const auto reader = client.get("much", get);
  std::vector<array::RecordBatch> hoard;
  std::size_t batches = 0;
  EXPECT_THROW(
      while (auto batch = reader->next()) {
        hoard.push_back(*std::move(batch));
        ++batches;
      },
      TimeoutError);
  hoard.clear();
  const auto next = [&] {
    while (true) {
      try {
        return reader->next().has_value();
      } catch (const TimeoutError&) {  // a slow machine: it may be called again
      }
    }
  };
  while (next()) ++batches;
  EXPECT_EQ(batches, 50u);
}

TEST_F(LiveTest, ASourcesErrorArrivesWithItsWords) {
  Server server;
  server.publish("broken", Source::factory([] {
                   auto count = std::make_shared<int>(0);
                   return std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                           [count]() -> std::optional<array::RecordBatch> {
                                                             if (++*count == 3)
                                                               throw std::runtime_error("the pump has stopped");
                                                             return number_batch(0, 1);
                                                           });
                 }));
  server.publish("unmade", Source::factory([]() -> std::unique_ptr<array::BatchStream> {
                   throw std::runtime_error("there is no pump");
                 }));
  Client client(server.uri());
  const auto reader = client.get("broken");
  EXPECT_TRUE(reader->next().has_value());
  EXPECT_TRUE(reader->next().has_value());
  try {
    reader->next();
    FAIL() << "a broken stream ended as if it were whole";
  } catch (const RemoteError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the pump has stopped"));
  }
  EXPECT_THROW(client.get("unmade"), RemoteError);
}

TEST_F(LiveTest, ASourcesErrorIsOneLineOfTheLog) {
  testing::LogLines lines;
  ServerOptions options;
  options.log = lines.callback();
  Server server(options);
  server.publish("numbers", Source::factory([]() -> std::unique_ptr<array::BatchStream> {
                   throw std::runtime_error("no pump\n\x1b[2Ja connection ended");
                 }));
  Client client(server.uri());
  EXPECT_THROW(client.get("numbers"), RemoteError);
  EXPECT_TRUE(lines.wait_until([&] { return lines.count("no pump\\n\\x1b[2Ja connection ended") == 1; }));
}

TEST_F(LiveTest, ASlowSourceDelaysNoOtherConsumer) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go_on = false;
  Server server;
  server.publish("slow", Source::factory([&]() -> std::unique_ptr<array::BatchStream> {
                   std::unique_lock lock(mutex);
                   changed.wait(lock, [&] { return go_on; });
                   return number_stream(1, 1);
                 }));
  server.publish("quick", Source::table(number_stream(10, 10)));
  Client client(server.uri());
  std::thread slow([&] { EXPECT_TRUE(client.get("slow")->next().has_value()); });
  int batches = 0;
  const auto reader = client.get("quick");
  while (reader->next()) ++batches;
  EXPECT_EQ(batches, 10);
  {
    const std::lock_guard lock(mutex);
    go_on = true;
  }
  changed.notify_all();
  slow.join();
}

TEST_F(LiveTest, ACloseThatNothingInterruptsWaitsForASource) {
  std::promise<void> in_producer;
  std::promise<void> go_on;
  Server server;
  server.publish("slow", Source::live(std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                                       [&]() -> std::optional<array::RecordBatch> {
                                                                         in_producer.set_value();
                                                                         go_on.get_future().wait();
                                                                         return std::nullopt;
                                                                       })));
  Client client(server.uri());
  const auto reader = client.get("slow");
  in_producer.get_future().wait();
  auto closed = std::async(std::launch::async, [&] { server.close(); });
  // Longer than it waits before it would ask a hook.
  EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  go_on.set_value();
  EXPECT_NO_THROW(closed.get());
}

TEST_F(LiveTest, AWaitHasAnEnd) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go_on = false;
  Server server;
  server.publish("silent", Source::factory([&] {
                   return std::make_unique<FunctionStream>(number_batch(0, 0).schema, [&] {
                     std::unique_lock lock(mutex);
                     changed.wait(lock, [&] { return go_on; });
                     return std::optional<array::RecordBatch>();
                   });
                 }));
  Client client(server.uri());
  GetOptions options;
  options.timeout = std::chrono::milliseconds(50);
  const auto reader = client.get("silent", options);
  EXPECT_THROW(reader->next(), TimeoutError);
  std::atomic<bool> stop = true;
  reader->set_interrupt_hook([&] { return stop.load(); });
  EXPECT_THROW(reader->next(), InterruptedError);
  stop = false;
  {
    const std::lock_guard lock(mutex);
    go_on = true;
  }
  changed.notify_all();
  std::optional<bool> ended;
  for (int i = 0; i < 400 && !ended; ++i) {
    try {
      ended = !reader->next();
    } catch (const TimeoutError&) {
    }
  }
  EXPECT_EQ(ended, true);
}

}  // namespace
}  // namespace crossdock::session
