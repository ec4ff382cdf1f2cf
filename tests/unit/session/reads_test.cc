#include <gmock/gmock.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "fake_server.h"
#include "ipc/compression.h"
#include "session/observe.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/polled.h"
#include "transport/memory.h"
#include "transport/registry.h"

// Bodies that are read from the server's memory, over the in-process transport.
namespace crossdock::session {
namespace {

using ::testing::HasSubstr;
using testing::number_at;
using testing::number_stream;
using testing::text_at;
using transport::Way;
using transport::Ways;

constexpr std::int64_t kRowsByRead = 1000;

class ReadsTest : public testing::NoLeftovers {
 protected:
  /// `reads`: as MemoryOptions::reads.
  void serve(std::function<int(std::uint64_t)> reads = {}, Ways ways = Way::kRead | Way::kMessage) {
    auto registry = std::make_shared<transport::TransportRegistry>();
    registry->add(transport::make_memory_transport({.ways = ways, .reads = std::move(reads)}));
    transports_ = registry;
    ServerOptions options;
    options.uris = {"memory:"};
    options.transports = transports_;
    server_ = std::make_unique<Server>(options);
    server_->publish("table", Source::table(number_stream(10, kRowsByRead)));
  }
  void TearDown() override {
    server_.reset();
    NoLeftovers::TearDown();
  }
  std::unique_ptr<Client> connect(std::optional<Way> way = Way::kRead) {
    return std::make_unique<Client>(server_->uri(), ClientOptions{.way = way, .transports = transports_});
  }
  ConsumerStats stats() { return server_->stats().consumers.at(0); }

  std::shared_ptr<const transport::TransportRegistry> transports_;
  std::unique_ptr<Server> server_;
};

void expect_numbers(const array::RecordBatch& batch, std::int64_t first) {
  ASSERT_EQ(batch.num_rows, kRowsByRead);
  for (const std::int64_t row : {std::int64_t{0}, kRowsByRead / 2, kRowsByRead - 1}) {
    EXPECT_EQ(number_at(batch, row), first + row);
    EXPECT_EQ(text_at(batch, row), std::to_string(first + row));
  }
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error_name(error.code())) + ": " + error.what();
  }
  return "none";
}

TEST_F(ReadsTest, GiveTheTableInOrderWhateverOrderTheyEndIn) {
  serve([](std::uint64_t n) { return static_cast<int>((n * 7 + 3) % 11); });
  const auto client = connect();
  const auto reader = client->get("table");
  for (int i = 0; i < 10; ++i) {
    const auto batch = reader->next();
    ASSERT_TRUE(batch);
    expect_numbers(*batch, i * kRowsByRead);
  }
  EXPECT_FALSE(reader->next());
  EXPECT_FALSE(reader->next());
}

TEST_F(ReadsTest, GiveTheLeaseBackBeforeTheBatchIsDropped) {
  serve();
  const auto client = connect();
  const auto reader = client->get("table");
  std::vector<array::RecordBatch> kept;
  while (auto batch = reader->next()) kept.push_back(*std::move(batch));
  ASSERT_EQ(kept.size(), 10u);
  // The server takes the frees before it opens another stream for this client.
  server_->publish("empty", Source::table(number_stream(0, 0)));
  const auto other = client->get("empty");
  EXPECT_EQ(stats().batches, 10u);
  EXPECT_EQ(stats().leases, 0u);
  server_->close();
  for (std::size_t i = 0; i < kept.size(); ++i) expect_numbers(kept[i], static_cast<std::int64_t>(i) * kRowsByRead);
}

TEST_F(ReadsTest, OfSomeColumnsTransferThoseColumnsOnly) {
  serve();
  const auto client = connect(std::nullopt);
  // An arena keeps all that was received.
  GetOptions options{.columns = {{"number"}}};
  options.arena = std::make_shared<device::Arena>();
  const auto reader = client->get("table", options);
  for (int i = 0; i < 10; ++i) {
    const auto batch = reader->next();
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->schema->fields().size(), 1u);
    EXPECT_EQ(number_at(*batch, 5), i * kRowsByRead + 5);
  }
  // The client's first connection is for whole batches.
  EXPECT_EQ(server_->stats().consumers.at(1).way, Way::kRead);
  EXPECT_THAT(server_->stats().consumers.at(1).why, HasSubstr("some columns"));
  EXPECT_FALSE(reader->next());
  EXPECT_LE(options.arena->size(), 10u * kRowsByRead * 8 + 4096);

  // All of them together are cheaper by message.
  const auto whole = client->get("table");
  const auto batch = whole->next();
  ASSERT_TRUE(batch);
  expect_numbers(*batch, 0);
  EXPECT_EQ(stats().way, Way::kMessage);
  EXPECT_EQ(stats().carrier, "memory");
}

TEST_F(ReadsTest, RunAheadOfTheConsumerWithinTheLimit) {
  std::atomic<int> begun{0};
  serve([&](std::uint64_t) {
    ++begun;
    return 20'000;  // calls, which is time enough for the server
  });
  const auto client = connect();
  const auto ahead_of = [&](std::uint64_t read_ahead) {
    begun = 0;
    const auto reader = client->get("table", {.read_ahead = read_ahead});
    EXPECT_TRUE(reader->next());
    return begun.load();
  };
  EXPECT_EQ(ahead_of(0), 1) << "one body may always be read";
  EXPECT_GT(ahead_of(std::uint64_t{64} << 20), 3);
}

TEST_F(ReadsTest, ThatFailEndTheStreamAndSayWhere) {
  serve([](std::uint64_t n) { return n == 3 ? ~2 : 0; });
  const auto client = connect();
  const auto reader = client->get("table", {.read_ahead = 0});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reader->next());
  const std::string first = message_of([&] { reader->next(); });
  EXPECT_THAT(first, HasSubstr("TruncatedStreamError"));
  EXPECT_THAT(first, HasSubstr("in the middle of reading message 4"));
  EXPECT_EQ(message_of([&] { reader->next(); }), first);
  // Another stream has a connection of its own.
  const auto again = client->get("table");
  ASSERT_TRUE(again->next());
}

TEST_F(ReadsTest, MayBeGivenUpInTheMiddle) {
  serve([](std::uint64_t) { return 1000; });
  const auto client = connect();
  auto reader = client->get("table");
  std::optional<array::RecordBatch> batch;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(testing::poll_next(*reader, &batch));
  reader->close();
  EXPECT_THAT(message_of([&] { reader->next(); }), HasSubstr("ClosedError"));
  reader.reset();
  auto other = client->get("table");
  EXPECT_FALSE(testing::poll_next(*other, &batch));
  other.reset();
}

TEST_F(ReadsTest, EndWithTheServer) {
  serve([](std::uint64_t) { return 1'000'000; });
  const auto client = connect();
  const auto reader = client->get("table");
  std::optional<array::RecordBatch> batch;
  EXPECT_FALSE(testing::poll_next(*reader, &batch));
  server_->close();
  EXPECT_THAT(message_of([&] { reader->next(); }), ::testing::AnyOf(HasSubstr("TruncatedStream"), HasSubstr("Closed")));
}

TEST_F(ReadsTest, ThatCantBeginAnyMoreAreATruncation) {
  serve();
  const auto client = connect();
  const auto reader = client->get("table", {.read_ahead = 0});
  ASSERT_TRUE(reader->next());
  server_->close();
  EXPECT_THAT(message_of([&] {
                while (reader->next()) continue;
              }),
              HasSubstr("TruncatedStreamError"));
}

TEST_F(ReadsTest, ThatFailWaitForTheBodiesBeforeThem) {
  serve([](std::uint64_t n) { return n == 3 ? ~0 : 500 - static_cast<int>(n); });
  const auto client = connect();
  const auto reader = client->get("table");
  for (int i = 0; i < 3; ++i) {
    const auto batch = reader->next();
    ASSERT_TRUE(batch);
    expect_numbers(*batch, i * kRowsByRead);
  }
  EXPECT_THAT(message_of([&] { reader->next(); }), HasSubstr("in the middle of reading message 4"));
}

TEST_F(ReadsTest, GiveLeasesBackWhileAnEarlierBodyIsStillBeingRead) {
  serve([](std::uint64_t n) { return n == 0 ? INT_MAX : 0; });
  const auto client = connect();
  const auto reader = client->get("table");
  std::optional<array::RecordBatch> batch;
  const auto one_is_left = [&] {
    EXPECT_FALSE(testing::poll_next(*reader, &batch));
    return stats().batches == 10 && stats().leases == 3;  // the buffers of the first batch
  };
  for (int i = 0; i < 10'000 && !one_is_left(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(one_is_left()) << stats().leases << " " << stats().batches;
}

TEST_F(ReadsTest, AreShownToAnObserverWithTheBodiesByValueBehindThem) {
  const auto transport = transport::make_memory_transport(
      {.ways = Way::kRead | Way::kMessage, .reads = [](std::uint64_t) { return 100'000; }});
  const FakeServer server(
      [](transport::Connection& c) {
        Truth truth;
        truth.announce(c);
        truth.schema(c);
        truth.record_batch(c);
        truth.body(c);
        ipc::Compressor compressor(ipc::Codec::kZstd);
        const array::RecordBatch second = testing::number_batch(kRowsByRead, kRowsByRead);
        const ipc::CompressedBody& body = compressor.compress(second);
        Truth::metadata(c, 2, truth.encoder.record_batch(second, &body.layout));
        c.send_body(dissociated::write_tag(2, dissociated::BodyType::kPacked), body.pieces, nullptr);
        std::vector<std::byte> bytes;  // the same without an owner: the next message overwrites it
        for (const ByteSpan piece : body.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
        Truth::metadata(c, 3, truth.encoder.record_batch(second, &body.layout));
        c.send_tagged(dissociated::write_tag(3, dissociated::BodyType::kPacked), bytes, {});
        Truth::end(c, 4);
      },
      *transport);
  auto registry = std::make_shared<transport::TransportRegistry>();
  registry->add(transport);
  Client client(server.uri(), ClientOptions{.way = Way::kRead, .transports = registry});
  GetOptions options;
  std::vector<dissociated::BodyType> types;
  options.on_batch = [&](const BatchArrival& arrival) {
    types.push_back(arrival.body_type);
    if (arrival.body_type == dissociated::BodyType::kRemote) return;
    const ipc::BatchDescription batch = ipc::describe_batch(arrival.metadata, arrival.schema, {}, "the test");
    ASSERT_EQ(static_cast<std::int64_t>(arrival.body.size()), batch.message.body_length);
    const ipc::BufferRange range = batch.buffers.at(1).range;  // the numbers
    const auto bytes =
        arrival.body.subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.length));
    EXPECT_EQ(ipc::decompressed_size(bytes, range.length), kRowsByRead * 8);
  };
  const auto reader = client.get("table", options);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reader->next()) << i;
  EXPECT_FALSE(reader->next());
  EXPECT_THAT(types, ::testing::ElementsAre(dissociated::BodyType::kRemote, dissociated::BodyType::kPacked,
                                            dissociated::BodyType::kPacked));
}

TEST_F(ReadsTest, OfABodyOverTheLimitAreRefusedBeforeMemoryIsTaken) {
  const auto outcome = [&](std::uint64_t max_body, bool all_columns) {
    auto registry = std::make_shared<transport::TransportRegistry>();
    registry->add(transport::make_memory_transport({.max_body = max_body, .ways = Way::kRead | Way::kMessage}));
    transports_ = registry;
    ServerOptions options;
    options.uris = {"memory:"};
    options.transports = transports_;
    server_ = std::make_unique<Server>(options);
    server_->publish("table", Source::table(number_stream(2, kRowsByRead)));
    const auto client = connect();
    GetOptions wanted;
    if (!all_columns) wanted.columns = {"number"};
    const auto reader = client->get("table", wanted);
    return message_of([&] {
      while (reader->next()) continue;
    });
  };
  constexpr std::uint64_t kNumbers = align_up(kRowsByRead * 8, 64);
  EXPECT_EQ(outcome(kNumbers, false), "none");
  EXPECT_THAT(outcome(kNumbers - 1, false), AllOf(HasSubstr("LeaseLimitError"), HasSubstr("max_body")));
  EXPECT_THAT(outcome(kNumbers, true), AllOf(HasSubstr("LeaseLimitError"), HasSubstr("max_body")));
  EXPECT_EQ(outcome(4 * kNumbers, true), "none");
}

TEST_F(ReadsTest, GoOnInAnEventLoop) {
  serve([](std::uint64_t n) { return static_cast<int>(n % 3); });
  const auto client = connect();
  const auto reader = client->get("table");
  std::optional<array::RecordBatch> batch;
  for (int i = 0; i < 10; ++i) {
    while (!testing::poll_next(*reader, &batch)) {
      if (!reader->prepare_sleep()) continue;
      pollfd ask{reader->descriptor(), POLLIN, 0};
      ASSERT_GT(::poll(&ask, 1, 20'000), 0);
      reader->awake();
    }
    ASSERT_TRUE(batch);
    expect_numbers(*batch, i * kRowsByRead);
  }
  while (!testing::poll_next(*reader, &batch)) std::this_thread::yield();
  EXPECT_FALSE(batch);
}

TEST_F(ReadsTest, AreTimedAndInterrupted) {
  serve([](std::uint64_t) { return INT_MAX; });
  const auto client = connect();
  EXPECT_THAT(message_of([&] { client->get("table", {.timeout = std::chrono::milliseconds(20)})->next(); }),
              HasSubstr("TimeoutError"));
  const auto reader = client->get("table");
  int asked = 0;
  reader->set_interrupt_hook([&] { return ++asked > 1; });
  EXPECT_THAT(message_of([&] { reader->next(); }), HasSubstr("InterruptedError"));
}

TEST_F(ReadsTest, AWayThatCantBeIsRefused) {
  serve();
  EXPECT_THAT(message_of([&] { connect(Way::kMap); }),
              HasSubstr("in the way that it wants (map): this transport has read, message"));
  server_->publish("live", Source::live(number_stream(3, 10)));
  const auto client = connect(Way::kRead);
  EXPECT_THAT(message_of([&] { client->get("live"); }), HasSubstr("bodies of this live stream can't reach"));
  EXPECT_EQ(client->list().size(), 2u);
  // By message it goes.
  const auto reader = connect(Way::kMessage)->get("live");
  int batches = 0;
  while (reader->next()) ++batches;
  EXPECT_EQ(batches, 3);
}

TEST_F(ReadsTest, AForcedWayIsTakenThoughAnotherIsBetter) {
  serve({}, Way::kMap | Way::kRead | Way::kMessage);
  for (const Way way : {Way::kMap, Way::kMessage}) {
    const auto client = connect(way);
    const auto reader = client->get("table");
    const auto batch = reader->next();
    ASSERT_TRUE(batch);
    expect_numbers(*batch, 0);
    EXPECT_EQ(server_->stats().consumers.back().way, way);
  }
}

}  // namespace
}  // namespace crossdock::session
