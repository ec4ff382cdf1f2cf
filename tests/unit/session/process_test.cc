#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/log_lines.h"
#include "support/process.h"
#include "support/temporary_folder.h"

namespace crossdock::session {
namespace {

using testing::ChildProcess;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;

class ProcessTest : public testing::NoLeftovers {};

// A server in a process of its own. Says its URI, then serves until its line closes.
int serve_numbers(const ChildProcess::Line& line) {
  ServerOptions options;
  options.window = 4;
  options.lease_limit = 1 << 20;
  Server server(options);
  server.publish("table", Source::table(number_stream(1000, 100)));
  server.publish("live", Source::factory([] { return number_stream(1000, 100); }));
  line.say(server.uri());
  line.hear();
  return 0;
}

TEST_F(ProcessTest, AKilledProducerLeavesBatchesValidAndTheReaderSaysSo) {
  for (const char* name : {"table", "live"}) {
    for (const auto wait : {transport::WaitMode::kBlock, transport::WaitMode::kSpin}) {
      ChildProcess producer(serve_numbers);
      Client client(producer.line().hear());
      GetOptions options;
      options.wait = wait;
      const auto reader = client.get(name, options);
      std::vector<array::RecordBatch> kept;
      for (int i = 0; i < 3; ++i) kept.push_back(*reader->next());
      producer.kill();
      EXPECT_THROW(while (auto batch = reader->next()) kept.push_back(*std::move(batch)), TruncatedStreamError);
      for (std::size_t i = 0; i < kept.size(); ++i) {
        EXPECT_EQ(number_at(kept[i], 99), static_cast<std::int64_t>(i) * 100 + 99);
      }
      EXPECT_THROW(reader->next(), TruncatedStreamError) << "a stream that failed never looks like one that ended";
      EXPECT_THROW(client.get(name), Error);
    }
  }
}

TEST_F(ProcessTest, AServerKilledWhileItPublishesHarmsNobodyAndIsReplaced) {
  const testing::TemporaryFolder folder;
  const std::string uri = "shm:" + (folder / "s.sock");
  ChildProcess producer([&](const ChildProcess::Line& line) {
    ServerOptions options;
    options.uris = {uri};
    Server server(options);
    server.publish("table", Source::table(number_stream(100, 100)));
    line.say("serving");
    line.hear();
    // Half of it is in shared memory when the rest is asked for.
    auto left = std::make_shared<int>(2);
    server.publish("half", Source::table(std::make_unique<testing::FunctionStream>(
                               number_batch(0, 0).schema, [&line, left]() -> std::optional<array::RecordBatch> {
                                 if ((*left)-- == 0) {
                                   line.say("publishing");
                                   line.hear();
                                 }
                                 return number_batch(0, 100'000);
                               })));
    return 1;
  });
  ASSERT_EQ(producer.line().hear(), "serving");
  Client client(uri);
  const auto reader = client.get("table");
  const auto batch = reader->next();
  producer.line().say("go on");
  ASSERT_EQ(producer.line().hear(), "publishing");
  EXPECT_EQ(client.list().size(), 1u) << "what isn't published whole isn't there";
  EXPECT_THROW(client.get("half"), NotFoundError);
  producer.kill();
  EXPECT_EQ(number_at(*batch, 99), 99);
  EXPECT_THROW(client.get("table"), ConnectionError);
  ServerOptions options;
  options.uris = {uri};
  Server next(options);
  next.publish("table", Source::table(number_stream(2, 100)));
  EXPECT_TRUE(client.get("table")->next().has_value()) << "at the same address";
}

TEST_F(ProcessTest, AKilledConsumersLeasesComeHomeAndOthersGoOn) {
  // The child is forked before the server has its thread.
  ChildProcess consumer([](const ChildProcess::Line& line) {
    Client client(line.hear());
    const auto reader = client.get("live");
    std::vector<array::RecordBatch> kept;
    for (int i = 0; i < 8; ++i) kept.push_back(*reader->next());
    line.say("holding");
    line.hear();
    return 0;
  });
  testing::LogLines log;  // a line for each connection that ends
  ServerOptions options;
  options.lease_limit = 1 << 20;
  options.log = log.callback();
  Server server(options);
  server.publish("live", Source::factory([] { return number_stream(1000, 100); }));
  consumer.line().say(server.uri());
  ASSERT_EQ(consumer.line().hear(), "holding");
  Client other(server.uri());
  const auto reader = other.get("live");
  ASSERT_TRUE(reader->next().has_value());
  ServerStats stats = server.stats();
  ASSERT_EQ(stats.consumers.size(), 2u);
  EXPECT_GT(stats.consumers[0].leases, 0u);
  consumer.kill();
  EXPECT_TRUE(log.wait_until([&] { return server.stats().consumers.size() == 1; }))
      << "the dead consumer is still served";
  int batches = 1;
  while (reader->next()) ++batches;
  EXPECT_EQ(batches, 1000);
}

TEST_F(ProcessTest, AfterAForkTheChildKeepsFrozenMemoryAndNothingElse) {
  Server server;
  server.publish("table", Source::table(number_stream(10, 100)));
  server.publish("live", Source::factory([] { return number_stream(10, 100); }));
  Client client(server.uri());
  const auto reader = client.get("table");
  auto frozen = reader->next();
  const auto live = client.get("live");
  auto recycled = live->next();
  ChildProcess child([&](const ChildProcess::Line&) {
    const auto is_fork_error = [](auto&& call) {
      try {
        call();
      } catch (const ForkError&) {
        return true;
      } catch (...) {
      }
      return false;
    };
    int failures = 0;
    failures += number_at(*frozen, 42) != 42;
    failures += !is_fork_error([&] { reader->next(); });
    failures += !is_fork_error([&] { live->next(); });
    failures += !is_fork_error([&] { reader->prepare_sleep(); });
    failures += !is_fork_error([&] { reader->awake(); });
    failures += !is_fork_error([&] { reader->close(); });
    failures += !is_fork_error([&] { client.get("table"); });
    failures += !is_fork_error([&] { client.list(); });
    failures += !is_fork_error([&] { server.stats(); });
    failures += !is_fork_error([&] { server.publish("x", Source::table(number_stream(1, 1))); });
    failures += !is_fork_error([&] { server.close(); });
    frozen.reset();  // frees nothing: the lease is the parent's
    recycled.reset();
    return failures;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_GT(server.stats().consumers.at(0).leases, 0u) << "a child gave its parent's lease back";
  EXPECT_EQ(number_at(*recycled, 42), 42);
  int batches = 1;
  while (reader->next()) ++batches;
  EXPECT_EQ(batches, 10);
}

TEST_F(ProcessTest, RecycledMemoryIsNotThereInAChild) {
  Server server;
  server.publish("live", Source::factory([] { return number_stream(10, 100); }));
  Client client(server.uri());
  const auto reader = client.get("live");
  const auto batch = reader->next();
  ChildProcess child([&](const ChildProcess::Line&) {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would turn it into an exit code
    return static_cast<int>(number_at(*batch, 0)) + 1;
  });
  EXPECT_EQ(child.wait(), -SIGSEGV);
}

TEST_F(ProcessTest, LeasesStayWhileAForkedChildOfADeadConsumerLives) {
  ChildProcess consumer([](const ChildProcess::Line& line) {
    Client client(line.hear());
    const auto reader = client.get("table");
    const auto batch = reader->next();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::alarm(20);
      for (;;) ::pause();
    }
    line.say(std::to_string(grandchild));
    line.hear();
    return 0;
  });
  testing::LogLines log;
  ServerOptions options;
  options.log = log.callback();
  Server server(options);
  server.publish("table", Source::table(number_stream(1000, 100)));
  consumer.line().say(server.uri());
  const pid_t grandchild = std::stoi(consumer.line().hear());
  ASSERT_GT(server.stats().consumers.at(0).leases, 0u) << "what a consumer has is lent";
  consumer.kill();
  // Nothing says "now it would have been noticed"; a client that comes and goes meanwhile shows that the loop has
  // turned.
  for (int i = 0; i < 5; ++i) Client(server.uri()).list();
  EXPECT_GT(server.stats().consumers.at(0).leases, 0u) << "the child still has the memory";
  ::kill(grandchild, SIGKILL);
  EXPECT_TRUE(log.wait_until([&] { return server.stats().consumers.empty(); }));
}

TEST_F(ProcessTest, AnotherUserGetsSealedMemoryOnlyAndOnlyIfAsked) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kNobody = 65534;
  const auto pool = Runtime::default_runtime()->make_pool();
  for (const bool any_user : {false, true}) {
    ChildProcess stranger([](const ChildProcess::Line& line) {
      const std::string uri = line.hear();
      if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return 10;
      const auto outcome = [&](const char* name) -> std::string {
        try {
          Client client(uri);
          const auto reader = client.get(name);
          std::int64_t rows = 0;
          while (const auto batch = reader->next()) rows += batch->num_rows;
          return std::to_string(rows);
        } catch (const Error& error) {
          return std::string(error_name(error.code()));
        }
      };
      line.say(outcome("table"));
      line.say(outcome("live"));
      line.say(outcome("pool"));
      return 0;
    });
    const testing::TemporaryFolder folder;
    ServerOptions options;
    options.transports = make_transports({.shm = {.any_user = any_user}});
    // A name would be looked up in the stranger's own folder.
    if (!any_user) options.uris = {"shm:" + (folder / "s.sock")};
    Server server(options);
    server.publish("table", Source::table(number_stream(3, 100)));
    server.publish("live", Source::factory([] { return number_stream(3, 100); }));
    const auto memory = pool->allocate(800);
    array::RecordBatch batch;
    batch.schema = testing::make_schema({{"number", array::TypeId::kInt64}});
    batch.num_rows = 100;
    batch.nodes = {{100, 0, 0}};
    batch.buffers = {{nullptr, 0}, {memory.get(), 800}};
    server.publish("pool", Source::table(testing::stream_of({batch})));
    EXPECT_EQ(server.stats().sources.at(1).bytes_copied, 0u);
    stranger.line().say(server.uri());
    const std::string table = stranger.line().hear();
    const std::string live = stranger.line().hear();
    EXPECT_EQ(table, any_user ? "300" : "PermissionError");
    EXPECT_EQ(live, "PermissionError");
    EXPECT_EQ(stranger.line().hear(), any_user ? "100" : "PermissionError") << "sent by value";
    EXPECT_EQ(stranger.wait(), 0);
  }
}

}  // namespace
}  // namespace crossdock::session
