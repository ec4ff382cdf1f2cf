#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/runtime.h"
#include "crossdock/session/server.h"
#include "session/consumer.h"
#include "session/dictionary_tracker.h"
#include "session/live_stream.h"
#include "session/server_connection.h"
#include "session/source_pool.h"
#include "session/source_reader.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "transport/memory.h"
#include "unit/session/support.h"

/// Sources that fail, consumers that are slow, and ends that come at a bad moment.
namespace crossdock::session {
namespace {

using testing::endless_stream;
using testing::FunctionStream;
using ::testing::HasSubstr;
using testing::make_schema;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;

class FaultTest : public testing::NoLeftovers {};

int mappings() {
  std::ifstream maps("/proc/self/maps");
  int lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

// Batches without an end.
// One batch of a dictionary column whose values are one text of `bytes` bytes.
array::RecordBatch dictionary_batch(std::int64_t rows, std::size_t bytes) {
  struct Memory {
    std::string text;
    std::vector<std::int32_t> offsets;
    std::vector<std::int32_t> indices;
  };
  auto memory = std::make_shared<Memory>();
  memory->text.assign(bytes, 'x');
  memory->offsets = {0, static_cast<std::int32_t>(bytes)};
  memory->indices.assign(static_cast<std::size_t>(rows), 0);
  array::Field values;
  values.name = "values";
  values.type.id = array::TypeId::kUtf8;
  array::Field field;
  field.name = "words";
  field.type.id = array::TypeId::kInt32;
  field.dictionary = std::make_shared<array::Field>(values);
  array::RecordBatch batch;
  batch.schema = std::make_shared<array::Schema>(std::vector<array::Field>{field});
  batch.num_rows = rows;
  batch.nodes = {{rows, 0, 0}};
  batch.buffers = {{nullptr, 0}, {memory->indices.data(), rows * 4}};
  auto dictionary = std::make_shared<array::RecordBatch>();
  dictionary->schema = batch.schema->dictionaries().front().values;
  dictionary->num_rows = 1;
  dictionary->nodes = {{1, 0, 0}};
  dictionary->buffers = {
      {nullptr, 0}, {memory->offsets.data(), 8}, {memory->text.data(), static_cast<std::int64_t>(bytes)}};
  dictionary->owner = memory;
  batch.dictionaries = {dictionary};
  batch.owner = memory;
  return batch;
}

TEST_F(FaultTest, SourcesThatAreNoneAreRefused) {
  Server server;
  EXPECT_THROW(server.publish("none", Source::table(nullptr)), InvalidArgumentError);
  EXPECT_THROW(server.publish("none", Source::live(nullptr)), InvalidArgumentError);
  EXPECT_THROW(server.publish("none", Source::factory(nullptr)), InvalidArgumentError);
  const auto without_schema = [] { return std::make_unique<FunctionStream>(nullptr, [] { return std::nullopt; }); };
  EXPECT_THROW(server.publish("none", Source::table(without_schema())), InvalidArgumentError);
  EXPECT_THROW(server.publish("none", Source::live(without_schema())), InvalidArgumentError);
  server.publish("nothing", Source::factory([] { return std::unique_ptr<array::BatchStream>(); }));
  server.publish("no schema", Source::factory(without_schema));
  Client client(server.uri());
  EXPECT_THROW(client.get("nothing"), RemoteError);
  EXPECT_THROW(client.get("no schema"), RemoteError);
  EXPECT_EQ(client.list().size(), 2u);
}

TEST_F(FaultTest, BatchesOfAnotherSchemaAreNotPassedOn) {
  Server server;
  const auto make = [](bool none) {
    return std::make_unique<FunctionStream>(number_batch(0, 0).schema, [none] {
      auto batch = number_batch(0, 3);
      batch.schema =
          none ? nullptr : make_schema({{"number", array::TypeId::kFloat64}, {"text", array::TypeId::kUtf8}});
      return std::optional(std::move(batch));
    });
  };
  EXPECT_THROW(server.publish("table", Source::table(make(false))), InvalidDataError);
  EXPECT_THROW(server.publish("table", Source::table(make(true))), InvalidDataError);
  server.publish("live", Source::live(make(false)));
  Client client(server.uri());
  const auto reader = client.get("live");
  EXPECT_THROW(reader->next(), InvalidDataError);
}

TEST_F(FaultTest, ASourceThatThrowsAnythingEndsItsOwnStreamOnly) {
  Server server;
  server.publish("rude", Source::factory([]() -> std::unique_ptr<array::BatchStream> { throw 42; }));
  server.publish("table", Source::table(number_stream(3, 10)));
  Client client(server.uri());
  EXPECT_THROW(client.get("rude"), RemoteError);
  EXPECT_TRUE(client.get("table")->next().has_value());
}

TEST_F(FaultTest, ASourceCannotCloseTheServerThatReadsIt) {
  Server server;
  server.publish("closes", Source::factory([&server] {
                   server.close();
                   return number_stream(1, 1);
                 }));
  Client client(server.uri());
  EXPECT_THROW(client.get("closes"), RemoteError);
  EXPECT_EQ(client.list().size(), 1u) << "and it goes on";
}

TEST_F(FaultTest, ColumnsThatShareAnIdMustShareTheDictionary) {
  const array::RecordBatch one = dictionary_batch(4, 10);
  const array::RecordBatch other = dictionary_batch(4, 10);
  array::Field first = one.schema->fields().front();
  first.dictionary_id = 1;
  array::Field second = first;
  second.name = "second";
  array::RecordBatch batch = one;
  batch.schema = std::make_shared<array::Schema>(std::vector<array::Field>{first, second});
  batch.nodes.push_back(batch.nodes.front());
  batch.buffers.insert(batch.buffers.end(), one.buffers.begin(), one.buffers.end());
  batch.dictionaries = {one.dictionaries.front(), one.dictionaries.front()};
  DictionaryTracker tracker;
  int sent = 0;
  const auto count = [&](std::int64_t, const array::RecordBatch&) { ++sent; };
  tracker.update(batch, count);
  EXPECT_EQ(sent, 1);
  batch.dictionaries.back() = other.dictionaries.front();
  EXPECT_THROW(tracker.update(batch, count), InvalidDataError) << "the first column would be read with other values";
}

TEST_F(FaultTest, DictionariesAboveAChangedOneAreSentAgain) {
  const array::RecordBatch words = dictionary_batch(4, 10);
  const array::RecordBatch others = dictionary_batch(4, 10);
  // The column's values are themselves coded by a dictionary.
  array::Field inner = words.schema->fields().front();
  inner.dictionary_id = 1;
  array::Field outer;
  outer.name = "outer";
  outer.type.id = array::TypeId::kInt32;
  outer.dictionary_id = 2;
  outer.dictionary = std::make_shared<array::Field>(inner);
  array::RecordBatch batch = words;
  batch.schema = std::make_shared<array::Schema>(std::vector<array::Field>{outer});
  auto values = std::make_shared<array::RecordBatch>(words);
  values->schema = batch.schema->dictionaries().front().values;
  batch.dictionaries = {values};

  DictionaryTracker tracker;
  std::vector<std::int64_t> sent;
  const auto update = [&](const array::RecordBatch& given) {
    sent.clear();
    tracker.update(given, [&](std::int64_t id, const array::RecordBatch&) { sent.push_back(id); });
    return sent;
  };
  EXPECT_THAT(update(batch), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(update(batch), ::testing::IsEmpty());
  auto changed = std::make_shared<array::RecordBatch>(*values);
  changed->dictionaries = others.dictionaries;
  batch.dictionaries = {changed};
  EXPECT_THAT(update(batch), ::testing::ElementsAre(1, 2)) << "the outer values would go on with the old inner ones";
}

std::shared_ptr<SourceReader> read_source(SourceReader::Make make, std::shared_ptr<const CountedStream> counted) {
  return SourceReader::start({.make = std::make_shared<SourceReader::Make>(std::move(make)),
                              .counted = std::move(counted),
                              .queue_limit = 8,
                              .waker = std::make_shared<ConnectionWaker>(std::make_shared<Waker>(), nullptr),
                              .bytes_copied = std::make_shared<std::atomic<std::uint64_t>>(),
                              .runtime = Runtime::default_runtime()});
}

TEST_F(FaultTest, ASourceThatWasStoppedIsNoStreamThatEnded) {
  const auto sources = std::make_shared<SourcePool>(SourcePool::Options{});
  const auto consumer = std::make_shared<Consumer>(1 << 20, sources);
  std::promise<void> entered;
  std::promise<void> go_on;
  const auto released = go_on.get_future().share();
  const auto source = read_source(
      [&entered, released] {
        return std::make_unique<FunctionStream>(number_batch(0, 0).schema, [&entered, released] {
          entered.set_value();
          released.wait();
          return std::optional(number_batch(0, 1));
        });
      },
      std::make_shared<CountedStream>(consumer));
  LiveStream stream(source, {});
  Outgoing out;
  while (stream.peek(&out) != ServerStream::State::kReady) std::this_thread::yield();
  stream.pop();  // the schema
  entered.get_future().wait();
  EXPECT_EQ(consumer->abandoned(), 0u);
  source->stop();
  EXPECT_EQ(consumer->abandoned(), 1u);
  EXPECT_EQ(consumer->streams(), 1u) << "it is still in its producer";
  sources->close();
  go_on.set_value();
  EXPECT_TRUE(sources->wait({}));
  EXPECT_EQ(consumer->abandoned(), 0u);
  EXPECT_EQ(consumer->streams(), 0u);
  EXPECT_THROW(stream.peek(&out), ClosedError) << "a consumer would take what it has for the whole stream";
}

TEST_F(FaultTest, ASourceThatNeverBeganIsForgottenAtOnce) {
  const auto sources = std::make_shared<SourcePool>(SourcePool::Options{.threads = 1});
  const auto consumer = std::make_shared<Consumer>(1 << 20, sources);
  std::promise<void> entered;
  std::promise<void> go_on;
  const auto blocked = read_source(
      [&]() -> std::unique_ptr<array::BatchStream> {
        entered.set_value();
        go_on.get_future().wait();
        return nullptr;
      },
      std::make_shared<CountedStream>(consumer));
  entered.get_future().wait();
  const auto never = []() -> std::unique_ptr<array::BatchStream> {
    ADD_FAILURE() << "it was stopped before";
    return nullptr;
  };
  {
    const auto source = read_source(never, std::make_shared<CountedStream>(consumer));
    LiveStream stream(source, {});
    EXPECT_EQ(consumer->streams(), 2u);
    source->stop();
    EXPECT_EQ(consumer->abandoned(), 0u);
    EXPECT_EQ(consumer->streams(), 1u);
    Outgoing out;
    EXPECT_THROW(stream.peek(&out), ClosedError) << "a consumer would take nothing for the whole stream";
  }
  EXPECT_EQ(consumer->abandoned(), 0u) << "it was stopped twice";
  sources->close();
  go_on.set_value();
  EXPECT_TRUE(sources->wait({}));
  EXPECT_EQ(consumer->streams(), 0u);
}

TEST_F(FaultTest, AConsumerThatGivesBackSlowlyIsWaitedFor) {
  transport::Agreement agreement;
  agreement.want_data = 1;
  agreement.free_data = 2;
  agreement.error_messages = true;
  agreement.counted_leases = true;
  auto [ours, peers] = transport::memory_pair(agreement, {});
  ServerOptions options;
  options.lease_patience = std::chrono::milliseconds(1000);
  options.lease_limit = 5 * 4096;
  const auto sources = std::make_shared<SourcePool>(SourcePool::Options{});
  const auto consumer = std::make_shared<Consumer>(options.lease_limit, sources);
  std::shared_ptr<SourceReader> source;
  ServerConnection connection(
      std::move(ours), options, consumer,
      [&](const dissociated::Request&, const transport::Connection&,
          const std::shared_ptr<const CountedStream>& counted) -> std::unique_ptr<ServerStream> {
        // Five of a page each, then one that needs the memory of three of them.
        auto n = std::make_shared<int>(0);
        source = read_source(
            [n] {
              return std::make_unique<FunctionStream>(make_schema({{"x", array::TypeId::kInt64}}), [n] {
                array::RecordBatch batch;
                auto memory = std::make_shared<std::array<std::int64_t, 1500>>();
                batch.schema = make_schema({{"x", array::TypeId::kInt64}});
                batch.num_rows = ++*n <= 5 ? 504 : 1500;
                batch.nodes = {{batch.num_rows, 0, 0}};
                batch.buffers = {{nullptr, 0}, {memory->data(), batch.num_rows * 8}};
                batch.owner = memory;
                return *n <= 6 ? std::optional(std::move(batch)) : std::nullopt;
              });
            },
            counted);
        return std::make_unique<LiveStream>(source, WayAnswer{});
      });
  std::vector<std::uint64_t> lent;
  int errors = 0;
  int by_value = 0;
  const auto take_all = [&, &peers = peers] {
    while (const auto message = peers->receive()) {
      if (!message->tagged) {
        errors += dissociated::read_prefix(message->bytes).type == dissociated::MessageType::kError;
        continue;
      }
      if (message->owner) {
        ++by_value;
        continue;
      }
      std::vector<dissociated::RemoteBuffer> buffers;
      dissociated::read_remote_body(message->bytes, &buffers);
      for (const auto& buffer : buffers) {
        if (buffer.address != 0) lent.push_back(buffer.address);
      }
    }
  };
  std::int64_t now = 1000;
  const auto take_turn = [&] {
    TurnBudget budget(0, []() noexcept { return std::int64_t{0}; });
    connection.turn(now, budget);
  };
  const auto turn_until = [&](std::size_t n) {
    const auto deadline = std::chrono::steady_clock::now() + kSoon;
    while (lent.size() < n && std::chrono::steady_clock::now() < deadline) {
      take_turn();
      take_all();
      std::this_thread::yield();
    }
    return lent.size() == n;
  };
  const auto free_one = [&, &peers = peers](std::size_t i) {
    ASSERT_TRUE(peers->send_tagged(2, std::as_bytes(std::span(&lent[i], 1)), {}));
  };
  ASSERT_TRUE(peers->send_tagged(1, as_bytes("s"), {}));
  ASSERT_TRUE(turn_until(5));
  while (!source->pool().starved()) std::this_thread::yield();
  take_turn();  // from here on it is watched
  for (std::size_t i = 0; i < 2; ++i) {
    now += 600;
    free_one(i);
    take_turn();
  }
  take_all();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(by_value, 0) << "it freed something every 600 ms";
  now += 600;
  free_one(2);
  EXPECT_TRUE(turn_until(6));
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(by_value, 0);
}

TEST_F(FaultTest, AStreamFitsBesideADictionaryAsLargeAsTheLimit) {
  ServerOptions options;
  options.lease_limit = 4096;
  options.lease_patience = std::chrono::milliseconds(500);
  Server server(options);
  const auto make = [](int batches) {
    return [batches] {
      auto left = std::make_shared<int>(batches);
      auto batch = std::make_shared<array::RecordBatch>(dictionary_batch(4096, 20'000));
      return std::make_unique<FunctionStream>(batch->schema, [=]() -> std::optional<array::RecordBatch> {
        if ((*left)-- == 0) return std::nullopt;
        return *batch;
      });
    };
  };
  server.publish("words", Source::factory(make(5)));
  Client client(server.uri());
  const auto reader = client.get("words");
  int batches = 0;
  while (const auto batch = reader->next()) ++batches;  // holds no batch, only the dictionary
  EXPECT_EQ(batches, 5);
  EXPECT_EQ(server.stats().consumers.at(0).bytes_by_value, 0U);
}

TEST_F(FaultTest, GrowingBatchesDontPileUpRegions) {
  RegionPool pool(
      std::make_shared<Consumer>(std::uint64_t{1} << 40, std::make_shared<SourcePool>(SourcePool::Options{})));
  std::uint32_t most = 0;
  for (std::uint64_t mib = 5; mib <= 20; ++mib) {
    const auto block = pool.allocate(mib << 20, {});
    ASSERT_TRUE(block);
    most = std::max(most, block->region);
    pool.free(*block);
  }
  EXPECT_LE(most, 4u) << "each batch left a region behind that none will ever fit into again";
}

TEST_F(FaultTest, WithdrawnSourcesLeaveNoThreadBehind) {
  Server server;
  Client client(server.uri());
  const auto round = [&](int i) {
    const std::string name = "live-" + std::to_string(i);
    server.publish(name, Source::live(number_stream(1, 1)));
    const auto reader = client.get(name);
    while (reader->next()) {
    }
    server.withdraw(name);
  };
  for (int i = 0; i < 20; ++i) round(i);
  const int before = mappings();
  for (int i = 20; i < 120; ++i) round(i);
  EXPECT_LT(mappings(), before + 60) << "a hundred threads that ended still have their stacks";
}

TEST_F(FaultTest, ClosingUnderManyConsumersNeverLooksLikeAnEnd) {
  Server server;
  server.publish("live", Source::factory(endless_stream));
  constexpr int kConsumers = 6;
  std::atomic<int> reading = 0;
  std::atomic<int> named = 0;
  std::vector<std::thread> consumers;
  for (int i = 0; i < kConsumers; ++i) {
    consumers.emplace_back([&] {
      Client client(server.uri());
      const auto reader = client.get("live");
      try {
        for (bool first = true; reader->next(); first = false) {
          if (first) ++reading;
        }
        ADD_FAILURE() << "an endless stream ended";
      } catch (const ClosedError&) {
        ++named;
      } catch (const TruncatedStreamError&) {
        ++named;  // its ring was full
      }
    });
  }
  while (reading < kConsumers) std::this_thread::yield();
  std::thread other([&] { server.close(); });
  server.close();
  other.join();
  for (auto& consumer : consumers) consumer.join();
  EXPECT_EQ(named, kConsumers);
  EXPECT_THROW(server.stats(), ClosedError);
  EXPECT_THROW(server.publish("late", Source::table(number_stream(1, 1))), ClosedError);
}

TEST_F(FaultTest, EverythingAtOnceWhileItCloses) {
  for (int round = 0; round < 5; ++round) {
    auto server = std::make_unique<Server>();
    server->publish("table", Source::table(number_stream(20, 50)));
    std::atomic<int> working = 0;
    std::vector<std::thread> threads;
    const auto until_closed = [&](auto&& work) {
      threads.emplace_back([&, work] {
        try {
          for (bool first = true;; first = false) {
            work();
            if (first) ++working;
          }
        } catch (const Error&) {  // closed, or on the way there
        }
      });
    };
    Client client(server->uri());
    until_closed([&] { server->stats(); });
    until_closed([&] {
      server->publish("x", Source::live(endless_stream()));
      const auto reader = client.get("x");
      if (!reader->next()) ADD_FAILURE() << "an endless stream ended";
      server->withdraw("x");
    });
    until_closed([&] { client.list(); });
    until_closed([&] {
      const auto reader = client.get("table");
      while (reader->next()) {
      }
    });
    while (working < 4) std::this_thread::yield();
    server->close();
    for (auto& thread : threads) thread.join();
  }
}

TEST_F(FaultTest, ReaderBatchClientAndServerGoInAnyOrderOnThreadsOfTheirOwn) {
  for (const char* name : {"table", "live"}) {
    std::array<int, 4> order{};
    std::iota(order.begin(), order.end(), 0);
    do {
      auto server = std::make_unique<Server>();
      server->publish("table", Source::table(number_stream(100, 50)));
      server->publish("live", Source::factory(endless_stream));
      auto client = std::make_unique<Client>(server->uri());
      auto reader = client->get(name);
      auto batch = reader->next();
      for (const int which : order) {
        if (batch) {
          EXPECT_EQ(number_at(*batch, 49), 49);
        }
        std::thread([&] {
          if (which == 0) server.reset();
          if (which == 1) client.reset();
          if (which == 2) reader.reset();
          if (which == 3) batch.reset();
        }).join();
      }
    } while (std::ranges::next_permutation(order).found);
  }
}

}  // namespace
}  // namespace crossdock::session
