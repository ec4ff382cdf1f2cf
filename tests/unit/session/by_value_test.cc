// Streams over connections that share no memory, and over two connections. The in-process transport stands for both
// kinds; tcp's own tests do the same between processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <future>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "dissociated/uri.h"
#include "session/observe.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/polled.h"
#include "transport/memory.h"
#include "transport/registry.h"
#include "transport/shm.h"

namespace crossdock::session {
namespace {

using testing::FunctionStream;
using ::testing::HasSubstr;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;

class ByValueTest : public testing::NoLeftovers {
 protected:
  std::shared_ptr<const transport::TransportRegistry> registry(bool shares_memory) {
    auto made = std::make_shared<transport::TransportRegistry>();
    made->add(transport::make_memory_transport(
        {.ways = shares_memory ? transport::Way::kMap | transport::Way::kMessage : transport::Way::kMessage}));
    made->add(transport::make_shm_transport());
    return made;
  }
  ServerOptions server_options(bool shares_memory = false) {
    ServerOptions options;
    options.transports = transports_ = registry(shares_memory);
    options.uris = {"memory:"};
    return options;
  }
  ClientOptions client_options() {
    ClientOptions options;
    options.transports = transports_;
    return options;
  }
  std::shared_ptr<const transport::TransportRegistry> transports_;
};

void expect_numbers(Reader& reader, int batches, std::int64_t rows) {
  for (int i = 0; i < batches; ++i) {
    const auto batch = reader.next();
    ASSERT_TRUE(batch) << i;
    EXPECT_EQ(batch->num_rows, rows);
    EXPECT_EQ(number_at(*batch, 0), i * rows);
    EXPECT_EQ(number_at(*batch, rows - 1), (i + 1) * rows - 1);
  }
  EXPECT_FALSE(reader.next());
}

TEST_F(ByValueTest, TablesComeWhole) {
  Server server(server_options());
  server.publish("numbers", Source::table(number_stream(20, 1000)));
  Client client(server.uri(), client_options());
  EXPECT_EQ(client.list().at(0).rows, 20'000);
  for (int i = 0; i < 3; ++i) expect_numbers(*client.get("numbers"), 20, 1000);
  const ServerStats stats = server.stats();
  ASSERT_EQ(stats.consumers.size(), 1u) << "one connection after another stream is used again";
  EXPECT_EQ(stats.consumers[0].leases, 0u);
  EXPECT_GE(stats.consumers[0].bytes_by_value, 3u * 20 * 8000);
}

TEST_F(ByValueTest, BatchesOutliveEverything) {
  std::optional<array::RecordBatch> kept;
  {
    Server server(server_options());
    server.publish("numbers", Source::table(number_stream(3, 1000)));
    Client client(server.uri(), client_options());
    const auto reader = client.get("numbers");
    reader->next();
    kept = reader->next();
  }
  EXPECT_EQ(number_at(*kept, 0), 1000);
  EXPECT_EQ(number_at(*kept, 999), 1999);
}

TEST_F(ByValueTest, LiveStreamsAreSentFromWhereTheyLie) {
  Server server(server_options());
  std::atomic<int> dropped = 0;
  server.publish("live", Source::factory([&dropped] {
                   auto n = std::make_shared<int>(0);
                   return std::make_unique<FunctionStream>(
                       number_batch(0, 0).schema, [n, &dropped]() -> std::optional<array::RecordBatch> {
                         if (*n == 100) return std::nullopt;
                         array::RecordBatch batch = number_batch((*n)++ * 500, 500);
                         batch.owner = std::shared_ptr<const void>(
                             nullptr, [held = batch.owner, &dropped](const void*) { ++dropped; });
                         return batch;
                       });
                 }));
  {
    Client client(server.uri(), client_options());
    expect_numbers(*client.get("live"), 100, 500);
    const ServerStats stats = server.stats();
    EXPECT_EQ(stats.sources.at(0).bytes_copied, 0u);
  }
  server.close();
  EXPECT_EQ(dropped, 100);
}

TEST_F(ByValueTest, ALiveStreamThatIsDroppedInTheMiddleLetsEverythingGo) {
  Server server(server_options());
  std::promise<void> gone;
  std::future<void> released = gone.get_future();
  server.publish("endless", Source::factory([&gone] {
                   const std::shared_ptr<void> held(nullptr, [&gone](void*) { gone.set_value(); });
                   return std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                           [held] { return std::optional(number_batch(0, 1000)); });
                 }));
  {
    Client client(server.uri(), client_options());
    const auto reader = client.get("endless");
    for (int i = 0; i < 10; ++i) reader->next();
  }
  EXPECT_EQ(released.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(ByValueTest, ABatchOverWhatTheConsumerTakesIsNamed) {
  ServerOptions options = server_options();
  auto narrow = std::make_shared<transport::TransportRegistry>();
  narrow->add(transport::make_memory_transport({.max_body = 4096, .ways = transport::Way::kMessage}));
  options.transports = transports_ = narrow;
  Server server(options);
  server.publish("numbers", Source::table(number_stream(2, 10'000)));
  Client client(server.uri(), client_options());
  const auto reader = client.get("numbers");
  try {
    reader->next();
    FAIL();
  } catch (const LeaseLimitError& error) {
    EXPECT_THAT(error.what(), HasSubstr("max_body"));
  }
}

TEST_F(ByValueTest, ABatchOfExactlyWhatTheConsumerTakesIsSent) {
  const auto get = [&](std::uint64_t max_body) {
    ServerOptions options = server_options();
    auto narrow = std::make_shared<transport::TransportRegistry>();
    narrow->add(transport::make_memory_transport({.max_body = max_body, .ways = transport::Way::kMessage}));
    options.transports = transports_ = narrow;
    Server server(options);
    // Its buffers are no multiple of 64 bytes: there is padding between them.
    server.publish("numbers", Source::factory([] { return number_stream(1, 1001); }));
    Client client(server.uri(), client_options());
    std::uint64_t size = 0;
    GetOptions observed;
    observed.on_message = [&](const WireEvent& event) {
      if (event.tagged && event.direction == Direction::kReceived) size = event.bytes.size();
    };
    const auto reader = client.get("numbers", observed);
    expect_numbers(*reader, 1, 1001);
    return size;
  };
  const std::uint64_t size = get(1 << 20);
  ASSERT_GT(size, 0u);
  EXPECT_EQ(get(size), size);
  EXPECT_THROW(get(size - 1), LeaseLimitError);
}

TEST_F(ByValueTest, ErrorsArriveWithTheirWords) {
  Server server(server_options());
  server.publish("broken", Source::factory([] {
                   auto n = std::make_shared<int>(0);
                   return std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                           [n]() -> std::optional<array::RecordBatch> {
                                                             if (++*n > 3) throw InvalidDataError("the well is dry");
                                                             return number_batch(0, 10);
                                                           });
                 }));
  Client client(server.uri(), client_options());
  const auto reader = client.get("broken");
  try {
    while (reader->next()) {
    }
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the well is dry"));
  }
  EXPECT_THROW(client.get("nothing"), NotFoundError);
}

TEST_F(ByValueTest, AnEventLoopNeverWaits) {
  Server server(server_options());
  std::promise<void> gate;
  server.publish("slow", Source::factory([&gate] {
                   auto n = std::make_shared<int>(0);
                   return std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                                           [n, &gate]() -> std::optional<array::RecordBatch> {
                                                             if (*n == 1) gate.get_future().wait();
                                                             if (*n == 2) return std::nullopt;
                                                             return number_batch((*n)++ * 10, 10);
                                                           });
                 }));
  Client client(server.uri(), client_options());
  const auto reader = client.get("slow");
  std::optional<array::RecordBatch> batch;
  const auto wait_and_take = [&] {
    while (!testing::poll_next(*reader, &batch)) {
      if (!reader->prepare_sleep()) continue;
      pollfd ask{reader->descriptor(), POLLIN, 0};
      const int ready = ::poll(&ask, 1, 20'000);
      reader->awake();
      if (ready != 1) return false;
    }
    return true;
  };
  ASSERT_TRUE(wait_and_take());
  EXPECT_EQ(number_at(*batch, 0), 0);
  EXPECT_FALSE(testing::poll_next(*reader, &batch)) << "its source is stuck";
  EXPECT_FALSE(batch);
  gate.set_value();
  ASSERT_TRUE(wait_and_take());
  EXPECT_EQ(number_at(*batch, 0), 10);
  ASSERT_TRUE(wait_and_take());
  EXPECT_FALSE(batch) << "the end";
  EXPECT_EQ(reader->descriptor(), -1);
  EXPECT_TRUE(testing::poll_next(*reader, &batch));
  EXPECT_FALSE(batch);
}

class TwoConnectionsTest : public ByValueTest, public ::testing::WithParamInterface<bool> {};

TEST_P(TwoConnectionsTest, OfOneServer) {
  Server server(server_options(GetParam()));
  server.publish("numbers", Source::table(number_stream(500, 100)));
  Client client(server.uri(), server.uri(), client_options());
  EXPECT_EQ(client.list().size(), 1u);
  for (int i = 0; i < 3; ++i) expect_numbers(*client.get("numbers"), 500, 100);
  std::vector<array::RecordBatch> hoard;
  auto reader = client.get("numbers");
  while (auto batch = reader->next()) hoard.push_back(*std::move(batch));
  EXPECT_EQ(hoard.size(), 500u);
  server.close();
  EXPECT_EQ(number_at(hoard.back(), 0), 49'900);
}

TEST_P(TwoConnectionsTest, OfTwoServersThatPublishTheSame) {
  Server metadata(server_options(GetParam()));
  ServerOptions options;
  options.transports = transports_;
  options.uris = {"shm:"};
  Server data(options);
  for (Server* server : {&metadata, &data}) server->publish("numbers", Source::table(number_stream(50, 100)));
  Client client(metadata.uri(), data.uri(), client_options());
  expect_numbers(*client.get("numbers"), 50, 100);
  EXPECT_EQ(metadata.stats().consumers.at(0).bytes, 0u) << "no body comes from the server of the metadata";
}

TEST_P(TwoConnectionsTest, ALiveStreamNeedsOne) {
  Server server(server_options(GetParam()));
  server.publish("live", Source::live(number_stream(5, 10)));
  {
    Client client(server.uri(), server.uri(), client_options());
    EXPECT_THROW(client.get("live"), UnsupportedError);
  }
  Client client(server.uri(), client_options());
  expect_numbers(*client.get("live"), 5, 10);
}

TEST_P(TwoConnectionsTest, TheLossOfEitherIsNeverAShorterTable) {
  for (const bool lose_data : {false, true}) {
    auto metadata = std::make_unique<Server>(server_options(GetParam()));
    ServerOptions options;
    options.transports = transports_;
    options.uris = {"memory:"};
    auto data = std::make_unique<Server>(options);
    for (Server* server : {metadata.get(), data.get()}) {
      server->publish("numbers", Source::table(number_stream(5000, 10)));
    }
    Client client(metadata->uri(), data->uri(), client_options());
    const auto reader = client.get("numbers");
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(reader->next());
    (lose_data ? data : metadata).reset();
    int n = 0;
    try {
      while (reader->next()) ++n;
      ADD_FAILURE() << "the stream seemed to end after " << n + 10 << " batches";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kTruncatedStream || error.code() == ErrorCode::kClosed) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, TwoConnectionsTest, ::testing::Bool());

// No End of Stream goes over a connection of bodies alone: whoever has the last body, or heard over the other
// connection that there is none, may ask again before the server has looked for the end.
TEST_F(ByValueTest, TheNextRequestMayFollowTheLastBodyAtOnce) {
  Server server(server_options());
  server.publish("nothing", Source::table(number_stream(0, 0)));
  server.publish("numbers", Source::table(number_stream(2, 10)));
  server.publish("many", Source::table(number_stream(5000, 1)));
  const std::string address = dissociated::parse_uri(server.uri()).address;
  const auto data = transports_->find("memory")->connect(address, {.role = ChannelRole::kData}, 10'000, {});
  const auto ask = [&](std::string_view ticket) {
    ASSERT_TRUE(data->send_tagged(data->agreement().want_data, as_bytes(ticket), {}));
  };
  const auto take = [&] {
    for (;;) {
      if (auto message = data->receive()) return *std::move(message);
      transport::wait_readable(*data, transport::WaitMode::kBlock, 0, {});
    }
  };
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i) ask("nothing");
    ask("numbers");
    for (const std::uint64_t number : {1u, 2u}) {
      const transport::Incoming message = take();
      EXPECT_EQ(message.tag, number) << as_text(message.bytes);
    }
  }
  // But a request before the last body breaks the protocol. The connection has no room for all bodies of "many".
  ask("many");
  ask("many");
  EXPECT_THROW(for (;;) take(), ConnectionError);
  EXPECT_EQ(server.stats().protocol_errors, 1u);
}

TEST_F(ByValueTest, OneServerListensAtSeveralPlaces) {
  ServerOptions options = server_options();
  options.uris = {"shm:", "memory:desk", "memory:"};
  Server server(options);
  server.publish("numbers", Source::table(number_stream(5, 100)));
  ASSERT_EQ(server.uris().size(), 3u);
  EXPECT_EQ(server.uris()[0], server.uri());
  for (const std::string& uri : server.uris()) {
    Client client(uri, client_options());
    expect_numbers(*client.get("numbers"), 5, 100);
  }
  Client by_name("memory:desk", client_options());
  EXPECT_THROW(Client("memory:chair", client_options()), ConnectionError);
  EXPECT_THROW(Server{options}, ConnectionError) << "memory:desk is taken";
}

TEST_F(ByValueTest, UnknownSchemesAndWrongRolesAreNamed) {
  const auto expect = [&](const auto& make, const char* text) {
    try {
      make();
      ADD_FAILURE() << "no error that says " << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  ServerOptions options;
  options.transports = std::make_shared<transport::TransportRegistry>();
  options.uris = {"pigeon:"};
  expect([&] { Server{options}; }, "'pigeon'");
  options.uris = {};
  expect([&] { Server{options}; }, "at least one URI");
  expect([&] { Client("memory:x?stream=data&want_data=1", ClientOptions{}); }, "give both URIs");
  expect([&] { Client("shm:x?stream=data", "shm:y", {}); }, "the metadata");
}

}  // namespace
}  // namespace crossdock::session
