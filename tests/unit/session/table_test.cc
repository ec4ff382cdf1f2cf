#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "dissociated/uri.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/temporary_folder.h"

namespace crossdock::session {
namespace {

using ::testing::HasSubstr;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;
using testing::text_at;

class TableTest : public testing::NoLeftovers {};

std::int64_t count_rows(Reader& reader) {
  std::int64_t rows = 0;
  while (const auto batch = reader.next()) {
    for (std::int64_t i = 0; i < batch->num_rows; ++i) {
      EXPECT_EQ(number_at(*batch, i), rows + i);
      EXPECT_EQ(text_at(*batch, i), std::to_string(rows + i));
    }
    rows += batch->num_rows;
  }
  return rows;
}

TEST_F(TableTest, CrossesWholeAndInOrder) {
  Server server;
  server.publish("numbers", Source::table(number_stream(10, 1000)));
  Client client(server.uri());
  const auto reader = client.get("numbers");
  EXPECT_EQ(*reader->schema(), *number_batch(0, 0).schema);
  EXPECT_EQ(count_rows(*reader), 10'000);
  EXPECT_FALSE(reader->next().has_value()) << "the end stays the end";
}

// A stream of two batches, the first of which has custom metadata.
std::unique_ptr<array::BatchStream> marked_stream() {
  std::vector<array::RecordBatch> batches = {number_batch(0, 2), number_batch(2, 2)};
  batches[0].custom_metadata = {{"step", "1"}, {"step", "again"}};
  return testing::stream_of(std::move(batches));
}

TEST_F(TableTest, CustomMetadataOfBatchesCrosses) {
  Server server;
  server.publish("table", Source::table(marked_stream()));
  server.publish("live", Source::live(marked_stream()));
  Client client(server.uri());
  for (const char* const name : {"table", "live"}) {
    GetOptions options;
    options.columns = {"text"};
    const auto reader = client.get(name, options);
    EXPECT_EQ(reader->next()->custom_metadata, (array::Metadata{{"step", "1"}, {"step", "again"}})) << name;
    EXPECT_EQ(reader->next()->custom_metadata, array::Metadata()) << name;
  }
}

TEST_F(TableTest, IsCopiedOnceForAnyNumberOfConsumers) {
  Server server;
  server.publish("numbers", Source::table(number_stream(4, 1000)));
  const std::uint64_t copied = server.stats().sources.at(0).bytes_copied;
  EXPECT_GT(copied, 4u * 1000 * 8);
  for (int i = 0; i < 3; ++i) {
    Client client(server.uri());
    EXPECT_EQ(count_rows(*client.get("numbers")), 4000);
  }
  const SourceStats stats = server.stats().sources.at(0);
  EXPECT_EQ(stats.bytes_copied, copied);
  EXPECT_EQ(stats.streams, 3u);
  EXPECT_EQ(stats.kind, "table");
  EXPECT_EQ(stats.rows, 4000);
}

TEST_F(TableTest, ManyStreamsOneAfterAnotherUseOneConnection) {
  Server server;
  server.publish("numbers", Source::table(number_stream(2, 10)));
  Client client(server.uri());
  for (int i = 0; i < 200; ++i) EXPECT_EQ(count_rows(*client.get("numbers")), 20);
  EXPECT_EQ(server.stats().accepted_connections, 1u);
}

TEST_F(TableTest, ReadersSideBySideHaveConnectionsOfTheirOwn) {
  Server server;
  server.publish("numbers", Source::table(number_stream(5, 10)));
  Client client(server.uri());
  const auto one = client.get("numbers");
  const auto two = client.get("numbers");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(number_at(*one->next(), 0), i * 10);
    EXPECT_EQ(number_at(*two->next(), 0), i * 10);
  }
  EXPECT_EQ(server.stats().accepted_connections, 2u);
}

TEST_F(TableTest, ABatchOutlivesReaderClientAndServer) {
  std::optional<array::RecordBatch> batch;
  {
    Server server;
    server.publish("numbers", Source::table(number_stream(3, 100)));
    Client client(server.uri());
    const auto reader = client.get("numbers");
    batch = reader->next();
  }
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(number_at(*batch, 99), 99);
  EXPECT_EQ(text_at(*batch, 42), "42");
  std::thread([&] { batch.reset(); }).join();
}

TEST_F(TableTest, AWindowSmallerThanTheStreamPausesAndGoesOnWithoutAnyRelease) {
  ServerOptions options;
  options.window = 2;
  Server server(options);
  server.publish("numbers", Source::table(number_stream(100, 10)));
  for (const auto wait : {transport::WaitMode::kBlock, transport::WaitMode::kAuto, transport::WaitMode::kSpin}) {
    Client client(server.uri());
    GetOptions get;
    get.wait = wait;
    get.timeout = std::chrono::milliseconds(20'000);
    const auto reader = client.get("numbers", get);
    std::vector<array::RecordBatch> kept;
    while (auto batch = reader->next()) kept.push_back(*std::move(batch));
    EXPECT_EQ(kept.size(), 100u);
  }
}

TEST_F(TableTest, ChosenColumnsComeInTheOrderAskedFor) {
  Server server;
  server.publish("numbers", Source::table(number_stream(1, 3)));
  Client client(server.uri());
  GetOptions options;
  options.columns = {"text"};
  const auto reader = client.get("numbers", options);
  ASSERT_EQ(reader->schema()->fields().size(), 1u);
  const auto batch = reader->next();
  ASSERT_EQ(batch->nodes.size(), 1u);
  EXPECT_EQ(batch->num_rows, 3);
  options.columns = {"absent"};
  EXPECT_THROW(client.get("numbers", options), NotFoundError);
}

TEST_F(TableTest, TheCatalogTellsWhatThereIs) {
  Server server;
  Client client(server.uri());
  EXPECT_TRUE(client.list().empty());
  server.publish("b", Source::table(number_stream(2, 50)));
  server.publish("a", Source::factory([] { return number_stream(1, 1); }));
  const auto entries = client.list();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].schema, nullptr);
  EXPECT_EQ(entries[0].rows, -1);
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(*entries[1].schema, *number_batch(0, 0).schema);
  EXPECT_EQ(entries[1].rows, 100);
  EXPECT_GT(entries[1].bytes, 800);
  EXPECT_EQ(entries[1].device, "cpu");
}

TEST_F(TableTest, AnUnknownNameIsRefusedAndTheConnectionGoesOn) {
  Server server;
  server.publish("numbers", Source::table(number_stream(1, 5)));
  Client client(server.uri());
  try {
    client.get("nombers");
    FAIL() << "a name that isn't there was given";
  } catch (const NotFoundError& error) {
    EXPECT_THAT(error.what(), HasSubstr("numbers"));
  }
  EXPECT_EQ(count_rows(*client.get("numbers")), 5);
  EXPECT_EQ(server.stats().accepted_connections, 1u);
}

TEST_F(TableTest, WithdrawnNamesAreGoneForNewConsumersOnly) {
  ServerOptions options;
  options.window = 1;
  Server server(options);
  server.publish("numbers", Source::table(number_stream(50, 10)));
  Client client(server.uri());
  const auto reader = client.get("numbers");
  server.withdraw("numbers");
  EXPECT_THROW(client.get("numbers"), NotFoundError);
  EXPECT_THROW(server.withdraw("numbers"), NotFoundError);
  EXPECT_EQ(count_rows(*reader), 500);
  server.publish("numbers", Source::table(number_stream(1, 1)));
  EXPECT_EQ(count_rows(*client.get("numbers")), 1);
}

TEST_F(TableTest, SlicesOfOneColumnAreNotCopiedAgainAndAgain) {
  const array::RecordBatch whole = number_batch(0, 10'000);
  std::vector<array::RecordBatch> slices;
  for (std::int64_t from = 0; from < 10'000; from += 100) {
    array::RecordBatch slice = whole;
    slice.num_rows = 100;
    for (array::Node& node : slice.nodes) node = {100, 0, from};
    slices.push_back(std::move(slice));
  }
  Server server;
  server.publish("slices", Source::table(testing::stream_of(slices)));
  const auto bytes = static_cast<std::uint64_t>(whole.nbytes());
  EXPECT_LT(server.stats().sources.at(0).bytes_copied, bytes + bytes / 10) << "offsets have one entry more per slice";
  Client client(server.uri());
  EXPECT_EQ(count_rows(*client.get("slices")), 10'000);
}

TEST_F(TableTest, NamesAreChecked) {
  Server server;
  server.publish("x", Source::table(number_stream(1, 1)));
  EXPECT_THROW(server.publish("x", Source::table(number_stream(1, 1))), InvalidArgumentError);
  EXPECT_THROW(server.publish("", Source::table(number_stream(1, 1))), InvalidArgumentError);
}

TEST_F(TableTest, AClosedReaderSaysSo) {
  Server server;
  server.publish("numbers", Source::table(number_stream(3, 10)));
  Client client(server.uri());
  const auto cut = client.get("numbers");
  cut->next();
  cut->close();
  EXPECT_THROW(cut->next(), ClosedError) << "two batches are missing";
  const auto whole = client.get("numbers");
  while (whole->next()) {
  }
  whole->close();
  EXPECT_FALSE(whole->next().has_value()) << "it had come to its end";
}

TEST_F(TableTest, NoBatchesAndEmptyBatchesCross) {
  Server server;
  server.publish("none", Source::table(number_stream(0, 1)));
  server.publish("empty", Source::table(number_stream(2, 0)));
  Client client(server.uri());
  EXPECT_FALSE(client.get("none")->next().has_value());
  const auto reader = client.get("empty");
  EXPECT_EQ(reader->next()->num_rows, 0);
  EXPECT_EQ(reader->next()->num_rows, 0);
  EXPECT_FALSE(reader->next().has_value());
}

TEST_F(TableTest, AClosedServerEndsStreamsByName) {
  ServerOptions options;
  options.window = 1;
  Server server(options);
  server.publish("numbers", Source::table(number_stream(100, 10)));
  Client client(server.uri());
  const auto reader = client.get("numbers");
  auto batch = reader->next();
  server.close();
  server.close();
  EXPECT_THROW(while (reader->next()){}, ClosedError);
  EXPECT_EQ(number_at(*batch, 5), 5);
  EXPECT_THROW(server.publish("more", Source::table(number_stream(1, 1))), ClosedError);
  EXPECT_THROW(server.stats(), ClosedError);
  EXPECT_THROW(client.get("numbers"), ConnectionError);
  EXPECT_THROW(Client(server.uri()), ConnectionError);
}

TEST_F(TableTest, AClientFindsTheServerThatTookItsServersPlace) {
  const testing::TemporaryFolder folder;
  ServerOptions options;
  options.uris = {"shm:" + (folder / "numbers.sock")};
  auto server = std::make_unique<Server>(options);
  server->publish("numbers", Source::table(number_stream(1, 1)));
  Client client(options.uris.front());
  EXPECT_EQ(count_rows(*client.get("numbers")), 1);
  server = nullptr;
  EXPECT_THROW(client.list(), ConnectionError) << "nobody listens there now";
  server = std::make_unique<Server>(options);
  server->publish("numbers", Source::table(number_stream(1, 2)));
  EXPECT_EQ(count_rows(*client.get("numbers")), 2);
}

TEST_F(TableTest, AnArenaIsTakenOverWithoutACopy) {
  const auto runtime = std::make_shared<Runtime>();
  ServerOptions options;
  options.runtime = runtime;
  Server server(options);
  const auto arena = runtime->make_arena();
  constexpr std::int64_t kRows = 1000;
  auto* numbers = reinterpret_cast<std::int64_t*>(arena->allocate(kRows * 8));
  for (std::int64_t i = 0; i < kRows; ++i) numbers[i] = i * i;
  array::RecordBatch batch;
  batch.schema = testing::make_schema({{"square", array::TypeId::kInt64}});
  batch.num_rows = kRows;
  batch.nodes = {{kRows, 0, 0}};
  batch.buffers = {{nullptr, 0}, {numbers, kRows * 8}};
  server.publish("squares", Source::table(testing::stream_of({batch})));
  EXPECT_TRUE(arena->frozen());
  EXPECT_EQ(server.stats().sources.at(0).bytes_copied, 0u);
  EXPECT_EQ(server.stats().sources.at(0).kind, "arena");

  Client client(server.uri());
  const auto received = client.get("squares")->next();
  EXPECT_EQ(static_cast<const std::int64_t*>(received->buffers[1].data)[31], 961);
  EXPECT_EQ(numbers[31], 961) << "still readable where it was written";
  EXPECT_THROW(server.publish("again", Source::table(testing::stream_of({batch}))), ArenaFrozenError);
  EXPECT_THROW(arena->allocate(8), ArenaFrozenError);
}

array::RecordBatch batch_of(const std::int64_t* numbers, std::int64_t rows) {
  array::RecordBatch batch;
  batch.schema = testing::make_schema({{"number", array::TypeId::kInt64}});
  batch.num_rows = rows;
  batch.nodes = {{rows, 0, 0}};
  batch.buffers = {{nullptr, 0}, {numbers, rows * 8}};
  return batch;
}

TEST_F(TableTest, APoolLendsItsMemoryAndTakesItAgain) {
  const auto runtime = std::make_shared<Runtime>();
  ServerOptions options;
  options.runtime = runtime;
  Server server(options);
  const auto pool = runtime->make_pool();
  constexpr std::int64_t kRows = 100000;
  auto memory = pool->allocate(kRows * 8);
  auto* const numbers = reinterpret_cast<std::int64_t*>(memory.get());
  std::iota(numbers, numbers + kRows, 0);
  server.publish("numbers", Source::table(testing::stream_of({batch_of(numbers, kRows)})));
  EXPECT_EQ(server.stats().sources.at(0).bytes_copied, 0u);
  EXPECT_EQ(server.stats().sources.at(0).kind, "pool");
  numbers[31] = -1;  // which consumers don't see

  Client client(server.uri());
  auto received = client.get("numbers")->next();
  EXPECT_EQ(number_at(*received, 31), 31);
  server.publish("other", Source::table(testing::stream_of({batch_of(numbers, kRows)})));
  EXPECT_EQ(server.stats().sources.at(1).bytes_copied, kRows * 8u) << "a page was written to: it differs";
  EXPECT_EQ(number_at(*client.get("other")->next(), 31), -1);
  const std::int64_t* const part = numbers + kRows / 2;  // other pages
  server.publish("part", Source::table(testing::stream_of({batch_of(part, 1000)})));
  EXPECT_EQ(server.stats().sources.at(2).bytes_copied, 0u);
  EXPECT_EQ(number_at(*client.get("part")->next(), 1), kRows / 2 + 1);

  memory.reset();
  for (const char* name : {"numbers", "other", "part"}) server.withdraw(name);
  EXPECT_EQ(pool->stats().idle_bytes, 0u) << "a batch is still held";
  EXPECT_EQ(number_at(*received, kRows - 1), kRows - 1);
  received.reset();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (pool->stats().idle_bytes == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(pool->stats().idle_bytes, pool->stats().bytes);
  EXPECT_EQ(pool->allocate(kRows * 8).get(), reinterpret_cast<std::byte*>(numbers));
}

TEST_F(TableTest, MoreRegionsThanATableCanNameAreCopied) {
  const auto runtime = std::make_shared<Runtime>();
  ServerOptions options;
  options.runtime = runtime;
  Server server(options);
  const auto pool = runtime->make_pool();
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<array::RecordBatch> batches;
  constexpr std::size_t kMost = 0x4000;
  struct rlimit descriptors {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  const struct rlimit enough {
    .rlim_cur = std::min<rlim_t>(kMost + 1000, descriptors.rlim_max), .rlim_max = descriptors.rlim_max
  };
  if (enough.rlim_cur < kMost + 1000) GTEST_SKIP() << "this system allows fewer descriptors";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &enough), 0);
  for (std::size_t i = 0; i < kMost + 2; ++i) {
    memory.push_back(pool->allocate(8));
    auto* const number = reinterpret_cast<std::int64_t*>(memory.back().get());
    *number = static_cast<std::int64_t>(i);
    batches.push_back(batch_of(number, 1));
  }
  server.publish("numbers", Source::table(testing::stream_of(std::move(batches))));
  EXPECT_EQ(server.stats().sources.at(0).bytes_copied, 16u);
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
}

TEST_F(TableTest, ANameForANumberOfConsumersIsWithdrawnAfterThem) {
  Server server;
  server.publish("twice", Source::table(number_stream(2, 10)), {.times = 2});
  Client client(server.uri());
  EXPECT_EQ(client.list().size(), 1u);
  EXPECT_EQ(count_rows(*client.get("twice")), 20);
  const auto second = client.get("twice");
  EXPECT_THROW(client.get("twice"), NotFoundError);
  EXPECT_TRUE(client.list().empty());
  EXPECT_EQ(count_rows(*second), 20) << "its stream goes on";
  EXPECT_NO_THROW(server.publish("twice", Source::table(number_stream(1, 1)), {.times = 1}));
  EXPECT_THROW(server.publish("live", Source::factory([] { return number_stream(1, 1); }), {.times = 1}),
               InvalidArgumentError);
}

TEST_F(TableTest, UrisAreChecked) {
  EXPECT_THROW(Client("nonsense"), UriError);
  EXPECT_THROW(Client("carrier://host:1"), SchemeError);
  EXPECT_THROW(Client("shm:"), UriError);
  EXPECT_THROW(Client("shm:/nowhere/at/all.sock"), ConnectionError);
  ServerOptions options;
  options.uris = {"carrier://localhost:1"};
  EXPECT_THROW(Server{options}, SchemeError);
}

TEST_F(TableTest, TheUriIsAnAddressAloneAndLocationsHaveTheTags) {
  ServerOptions options;
  const std::string name = "table-test-two-" + std::to_string(::getpid());
  options.uris = {"shm:" + name, "tcp:"};
  Server server(options);
  EXPECT_EQ(server.uri(), "shm:" + name);
  ASSERT_EQ(server.locations().size(), server.uris().size());
  for (std::size_t i = 0; i < server.uris().size(); ++i) {
    const std::string& uri = server.uris()[i];
    EXPECT_EQ(uri.find_first_of("?&"), std::string::npos) << uri;
    const std::string& location = server.locations()[i];
    EXPECT_TRUE(location.starts_with(uri + "?want_data=")) << location;
    EXPECT_TRUE(dissociated::parse_uri(location).want_data);
    EXPECT_TRUE(dissociated::parse_uri(location).free_data);
    EXPECT_NO_THROW(Client{uri}) << "the handshake supplies the tags";
    EXPECT_NO_THROW(Client{location});
  }
}

TEST_F(TableTest, AServerThatIsGoneIsAnotherErrorThanANameThatIsMissing) {
  const std::string uri = "shm:table-test-gone-" + std::to_string(::getpid());
  ServerOptions options;
  options.uris = {uri};
  auto server = std::make_unique<Server>(options);
  server->publish("numbers", Source::table(number_stream(1, 1)));
  Client client(uri);
  EXPECT_THROW(static_cast<void>(client.get("absent")), NotFoundError);
  server.reset();
  // Its socket is gone, too: NotFoundError is for names.
  EXPECT_THROW(Client{uri}, ConnectionError);
  EXPECT_THROW(static_cast<void>(client.get("numbers")), ConnectionError);
  EXPECT_THROW(static_cast<void>(client.tensor("numbers")), ConnectionError);
  EXPECT_THROW(static_cast<void>(client.list()), ConnectionError);
  EXPECT_THROW(static_cast<void>(client.server_stats()), ConnectionError);
}

TEST_F(TableTest, TheUriHoldsOverARestartAndALocationOfTheOldServerSaysThatItIsOld) {
  ServerOptions options;
  const std::string uri = "shm:table-test-" + std::to_string(::getpid());
  options.uris = {uri};
  std::string location;
  {
    Server server(options);
    location = server.locations().front();
  }
  Server server(options);
  EXPECT_NO_THROW(Client client(uri));
  EXPECT_NE(server.locations().front(), location);
  try {
    Client client(location);
    FAIL() << "tags of another server";
  } catch (const HandshakeError& error) {
    EXPECT_STREQ(error.what(),
                 "This URI is from an earlier server at the same address. Use the current one, or leave out everything "
                 "after '?'.");
  }
}

}  // namespace
}  // namespace crossdock::session
