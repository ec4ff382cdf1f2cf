// Server::drain(): streams under way go on, and nothing else begins; and prepare() with commit().

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"

namespace crossdock::session {
namespace {

using namespace std::chrono_literals;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::number_stream;

class DrainTest : public testing::NoLeftovers, public ::testing::WithParamInterface<const char*> {
 protected:
  static ServerOptions at(const char* uri) {
    ServerOptions options;
    options.uris = {uri};
    options.window = 2;
    return options;
  }
};

std::vector<std::string> names(Client& client) {
  std::vector<std::string> found;
  for (const CatalogEntry& entry : client.list()) found.push_back(entry.name);
  return found;
}

TEST_P(DrainTest, WithoutStreamsItEndsAtOnce) {
  Server server(at(GetParam()));
  server.publish("x", Source::table(number_stream(3, 10)));
  EXPECT_TRUE(server.drain(0ms) || server.drain(60s));
  EXPECT_TRUE(server.drain(60s));  // again
}

TEST_P(DrainTest, AClientThatIsIdleDelaysNothing) {
  Server server(at(GetParam()));
  server.publish("x", Source::table(number_stream(3, 10)));
  Client client(server.uri());
  EXPECT_THAT(names(client), ElementsAre("x"));
  {
    const auto reader = client.get("x");
    while (reader->next()) {
    }
  }
  EXPECT_TRUE(server.drain(60s));
}

TEST_P(DrainTest, AStreamUnderWayGoesOn) {
  Server server(at(GetParam()));
  server.publish("x", Source::table(number_stream(500, 10)));
  Client client(server.uri());
  const auto reader = client.get("x");
  ASSERT_TRUE(reader->next());
  EXPECT_FALSE(server.drain(1ms));
  auto drained = std::async(std::launch::async, [&] { return server.drain(60s); });
  int batches = 1;
  while (reader->next()) ++batches;
  EXPECT_EQ(batches, 500);
  EXPECT_TRUE(drained.get());
}

TEST_P(DrainTest, RequestsAndSourcesAreRefused) {
  Server server(at(GetParam()));
  server.publish("x", Source::table(number_stream(3, 10)));
  Client before(server.uri());
  EXPECT_TRUE(server.drain(60s));
  Client after(server.uri());
  for (Client* const client : {&before, &after}) {
    for (const auto& ask :
         {std::function<void()>([&] { client->list(); }), std::function<void()>([&] { client->get("x")->next(); })}) {
      try {
        ask();
        ADD_FAILURE() << "it was answered";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("about to end"));
      }
    }
  }
  EXPECT_THROW(server.publish("y", Source::table(number_stream(3, 10))), ClosedError);
}

TEST_P(DrainTest, ASourceCantWaitForItself) {
  Server server(at(GetParam()));
  server.publish("x", Source::live(std::make_unique<testing::FunctionStream>(
                          testing::number_batch(0, 0).schema, [&]() -> std::optional<array::RecordBatch> {
                            EXPECT_FALSE(server.drain(1ms));
                            server.drain();
                            return std::nullopt;
                          })));
  Client client(server.uri());
  try {
    while (client.get("x", {.timeout = 20s})->next()) {
    }
    ADD_FAILURE() << "it waited";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("drain the server in another thread"));
  }
  EXPECT_TRUE(server.drain(60s));
}

INSTANTIATE_TEST_SUITE_P(Transports, DrainTest, ::testing::Values("shm:", "tcp:"));

using DrainingTest = testing::NoLeftovers;

TEST_F(DrainingTest, CloseEndsTheWait) {
  Server server;
  server.publish("x", Source::table(number_stream(5000, 10)));
  Client client(server.uri());
  const auto reader = client.get("x");
  ASSERT_TRUE(reader->next());
  ASSERT_FALSE(server.drain(0ms));
  auto drained = std::async(std::launch::async, [&] {
    try {
      return server.drain();
    } catch (const ClosedError&) {
      return false;  // close() was first
    }
  });
  server.close();
  EXPECT_FALSE(drained.get());
}

TEST_F(DrainingTest, AnInterruptEndsTheWait) {
  Server server;
  server.publish("x", Source::table(number_stream(5000, 10)));
  Client client(server.uri());
  const auto reader = client.get("x");
  ASSERT_TRUE(reader->next());
  EXPECT_THROW(server.drain({}, [] { return true; }), InterruptedError);
}

TEST_F(DrainingTest, AConsumerThatIsKilledEndsTheWait) {
  Server server;
  server.publish("x", Source::table(number_stream(5000, 10)));
  auto client = std::make_unique<Client>(server.uri());
  auto reader = client->get("x");
  ASSERT_TRUE(reader->next());
  auto drained = std::async(std::launch::async, [&] { return server.drain(60s); });
  reader.reset();
  client.reset();
  EXPECT_TRUE(drained.get());
}

// ---- prepare() and commit() ----

using CommitTest = testing::NoLeftovers;

TEST_F(CommitTest, ItPublishesReplacesAndWithdrawsAtOnce) {
  Server server;
  server.publish("gone", Source::table(number_stream(1, 10)));
  server.publish("other", Source::table(number_stream(1, 10)));
  std::vector<Prepared> sources;
  sources.push_back(server.prepare("other", Source::table(number_stream(2, 10)), {.replace = true}));
  sources.push_back(server.prepare("new", Source::table(number_stream(3, 10))));
  Client client(server.uri());
  EXPECT_THAT(names(client), ElementsAre("gone", "other"));
  server.commit(std::move(sources), {"gone"});
  EXPECT_THAT(names(client), ElementsAre("new", "other"));
  EXPECT_EQ(client.list()[1].rows, 20);
}

TEST_F(CommitTest, IfAnythingIsWrongNothingChanges) {
  Server server;
  server.publish("a", Source::table(number_stream(1, 10)));
  Client client(server.uri());
  const auto both = [&](const char* first, const char* second, bool replace) {
    std::vector<Prepared> sources;
    for (const char* name : {first, second}) {
      sources.push_back(server.prepare(name, Source::table(number_stream(2, 10)), {.replace = replace}));
    }
    return sources;
  };
  EXPECT_THROW(server.commit(both("b", "b", true)), InvalidArgumentError);
  EXPECT_THROW(server.commit(both("a", "b", true), {"c"}), NotFoundError);
  EXPECT_THROW(server.commit(both("a", "b", true), {"a"}), InvalidArgumentError);
  auto late = both("b", "c", false);
  server.publish("c", Source::table(number_stream(1, 10)));
  EXPECT_THROW(server.commit(std::move(late)), InvalidArgumentError);
  EXPECT_THAT(names(client), ElementsAre("a", "c"));
  EXPECT_EQ(client.list()[0].rows, 10);
}

TEST_F(CommitTest, APreparedSourceIsPublishedOnce) {
  Server server;
  std::vector<Prepared> sources;
  sources.push_back(server.prepare("x", Source::table(number_stream(1, 10))));
  std::vector<Prepared> moved = std::move(sources);
  Prepared kept = std::move(moved.front());
  EXPECT_THROW(server.commit(std::move(moved)), InvalidArgumentError);
  std::vector<Prepared> again;
  again.push_back(std::move(kept));
  server.commit(std::move(again), {});
  Client client(server.uri());
  EXPECT_THAT(names(client), ElementsAre("x"));
}

TEST_F(CommitTest, ASourceOfAnotherServerIsRefused) {
  Server server;
  Server other;
  std::vector<Prepared> sources;
  sources.push_back(other.prepare("x", Source::table(number_stream(1, 10))));
  EXPECT_THROW(server.commit(std::move(sources)), InvalidArgumentError);
}

TEST_F(CommitTest, ASourceThatIsNeverPublishedIsFreed) {
  Server server;
  server.publish("a", Source::table(number_stream(1, 10)));
  { const Prepared dropped = server.prepare("a", Source::table(number_stream(2, 10)), {.replace = true}); }
  Client client(server.uri());
  EXPECT_EQ(client.list()[0].rows, 10);
}

}  // namespace
}  // namespace crossdock::session
