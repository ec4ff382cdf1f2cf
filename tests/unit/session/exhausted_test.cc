#include <time.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/arrow_file.h"
#include "support/batches.h"
#include "support/exhaust.h"
#include "support/leftovers.h"
#include "support/process.h"
#include "support/temporary_folder.h"

/// Descriptors or mappings are used up, in a server or in a consumer of its own process.
namespace crossdock::session {
namespace {

using testing::AllDescriptors;
using testing::AllMappings;
using testing::ChildProcess;
using testing::number_at;
using testing::number_stream;

constexpr int kBatchesOfStream = 20;
constexpr std::int64_t kRowsOfBatch = 100;

class ExhaustedTest : public testing::NoLeftovers {
 protected:
  void SetUp() override {
    testing::NoLeftovers::SetUp();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer needs mappings and descriptors of its own";
#endif
  }
};

// What it came to: "ok", or the error's name and text.
template <typename Work>
std::string outcome(Work work) {
  try {
    work();
    return "ok";
  } catch (const Error& error) {
    return std::string(error_name(error.code())) + ": " + error.what();
  } catch (const std::exception& error) {
    return std::string("without a name: ") + error.what();
  }
}

std::int64_t take_all(Reader& reader) {
  std::int64_t rows = 0;
  while (const auto batch = reader.next()) rows += batch->num_rows;
  return rows;
}

std::string get(Client& client, const char* name) {
  return outcome([&] {
    GetOptions options;
    options.timeout = std::chrono::milliseconds(10'000);
    if (take_all(*client.get(name, options)) != kBatchesOfStream * kRowsOfBatch)
      throw std::logic_error("it came cut short");
  });
}

std::string connect(const std::string& uri, int timeout_ms) {
  return outcome([&] {
    ClientOptions options;
    options.timeout = std::chrono::milliseconds(timeout_ms);
    Client client(uri, options);
    client.list();
  });
}

// What this process has used of processors, in ms.
std::int64_t cpu_ms() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::int64_t{used.tv_sec} * 1000 + used.tv_nsec / 1'000'000;
}

// No descriptor of the server's is lower.
constexpr int kLowDescriptors = 32;

ServerOptions served_over(std::string_view scheme) {
  ServerOptions options;
  if (scheme == "tcp") options.uris = {"tcp:"};
  return options;
}

// A server that uses up what it is told to. Says its URI; then answers each order.
int serve(const ChildProcess::Line& line, const std::string& folder, std::string_view scheme) {
  for (int fd = -1; (fd = ::dup(STDERR_FILENO)) < kLowDescriptors;) {
    if (fd < 0) std::abort();  // no standard error, or a limit that is lower still
  }
  ServerOptions options = served_over(scheme);
  options.window = 1;
  options.wait = transport::WaitMode::kBlock;
  Server server(options);
  server.publish("table", Source::table(number_stream(kBatchesOfStream, kRowsOfBatch)));
  server.publish("live", Source::factory([] { return number_stream(kBatchesOfStream, kRowsOfBatch); }));
  const std::string path = folder + "numbers.arrows";
  testing::write_stream_file(path, *number_stream(kBatchesOfStream, kRowsOfBatch));
  line.say(server.uri());
  std::unique_ptr<AllDescriptors> descriptors;
  std::unique_ptr<AllMappings> mappings;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  for (std::string order; !(order = line.hear()).empty();) {
    std::string answer = "done";
    if (order == "take descriptors") descriptors = std::make_unique<AllDescriptors>();
    if (order == "free descriptors") descriptors.reset();
    if (order == "take mappings") mappings = std::make_unique<AllMappings>();
    if (order == "free mappings") mappings.reset();
    // Below what the server has open: not even a descriptor that it gives up makes room for another.
    if (order.starts_with("forbid ")) {
      const rlimit none{static_cast<rlim_t>(std::stoi(order.substr(7))), before.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &none);
    }
    if (order == "allow descriptors") ::setrlimit(RLIMIT_NOFILE, &before);
    if (order == "publish table") {
      answer = outcome([&] { server.publish("more", Source::table(number_stream(kBatchesOfStream, kRowsOfBatch))); });
    }
    if (order == "publish file") answer = outcome([&] { server.publish("file", Source::file(path)); });
    if (order == "publish snapshot") {
      answer = outcome([&] { server.publish("snapshot", Source::file(path, Stability::kSnapshot)); });
    }
    if (order == "say cpu time") answer = std::to_string(cpu_ms());
    if (order == "serve anew") answer = outcome([&] { Server another(served_over(scheme)); });
    line.say(answer);
  }
  return 0;
}

class Exhausted : public ExhaustedTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ExhaustedTest::SetUp();
    if (IsSkipped()) return;
    child_ = std::make_unique<ChildProcess>(
        [this](const ChildProcess::Line& line) { return serve(line, folder_ / "", GetParam()); });
    uri_ = child_->line().hear();
    reading_ = std::make_unique<Client>(uri_);
    reader_ = reading_->get("table");
    first_ = reader_->next();
    ASSERT_TRUE(first_.has_value());
    other_ = std::make_unique<Client>(uri_);
    ASSERT_EQ(get(*other_, "table"), "ok");  // now it is idle, and all that its handshake took is closed again
  }
  void TearDown() override {
    if (IsSkipped()) return;
    // Who was connected before goes on, whatever happened.
    EXPECT_EQ(take_all(*reader_), left_ * kRowsOfBatch);
    EXPECT_EQ(number_at(*first_, 42), 42);
    EXPECT_EQ(get(*other_, "table"), "ok");
    // And all is well once there is enough again.
    EXPECT_EQ(connect(uri_, 10'000), "ok");
    {
      Client late(uri_);
      EXPECT_EQ(get(late, "table"), "ok");
      EXPECT_EQ(get(late, "live"), "ok");
      EXPECT_EQ(tell("publish table"), "ok");
      EXPECT_EQ(get(late, "more"), "ok");
    }
    first_.reset();
    reader_.reset();
    reading_.reset();
    other_.reset();
    child_.reset();
    ExhaustedTest::TearDown();
  }
  std::string tell(const std::string& order) {
    child_->line().say(order);
    return child_->line().hear();
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> child_;
  std::string uri_;
  std::unique_ptr<Client> reading_;
  std::unique_ptr<Client> other_;
  std::unique_ptr<Reader> reader_;
  std::optional<array::RecordBatch> first_;
  std::int64_t left_ = kBatchesOfStream - 1;  // batches that reader_ has still to give
};

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_P(Exhausted, AServerWithoutDescriptorsTurnsClientsAwayByNameAndServesTheOthers) {
  ASSERT_EQ(tell("take descriptors"), "done");
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(connect(uri_, 10'000), AllOf(StartsWith("ConnectionError"), HasSubstr("out of descriptors")));
  }
  EXPECT_EQ(get(*other_, "table"), "ok") << "on a connection of its own, which was there before";
  for (const char* what : {"table", "file", "snapshot"}) {
    EXPECT_THAT(tell(std::string("publish ") + what), StartsWith("ResourceError")) << what;
  }
  EXPECT_THAT(tell("serve anew"), StartsWith("ResourceError"));
  if (GetParam() == std::string_view("tcp")) {
    EXPECT_EQ(get(*other_, "live"), "ok") << "bodies go by value, from where they are";
  } else {
    EXPECT_THAT(get(*other_, "live"),
                AllOf(StartsWith("ResourceError: the server, not this client, lacks a resource"),
                      HasSubstr("process " + std::to_string(child_->pid()) + " has reached its limit of open files")))
        << "there is no memory file to be had";
  }
  ASSERT_EQ(tell("free descriptors"), "done");
}

TEST_P(Exhausted, AServerThatCanEvenTurnNobodyAwayRestsAndAcceptsAgain) {
  // With 3, not even poll() takes as many as the server has.
  for (const int allowed : {kLowDescriptors, 3}) {
    ASSERT_EQ(tell("forbid " + std::to_string(allowed)), "done");
    const int before = std::stoi(tell("say cpu time"));
    EXPECT_THAT(connect(uri_, 1000), StartsWith("TimeoutError")) << "it waits to be accepted";
    // Of the second in which it could do nothing: what asks for ever uses nearly all of it.
    EXPECT_LT(std::stoi(tell("say cpu time")) - before, 300) << "ms of CPU time, with a limit of " << allowed;
    // Who is in the middle of a stream goes on. (A new one needs a descriptor to be passed, which the system refuses a
    // user without privileges whose processes have more of them under way than this limit.)
    EXPECT_TRUE(reader_->next());
    --left_;
    ASSERT_EQ(tell("allow descriptors"), "done");
    EXPECT_EQ(connect(uri_, 10'000), "ok");
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Exhausted, ::testing::Values("shm", "tcp"),
                         [](const auto& over) { return std::string(over.param); });

// Over tcp nothing is mapped.
class ExhaustedOfMappings : public Exhausted {};
INSTANTIATE_TEST_SUITE_P(Over, ExhaustedOfMappings, ::testing::Values("shm"));

TEST_P(ExhaustedOfMappings, AServerWithoutMappingsSaysSo) {
  ASSERT_EQ(tell("take mappings"), "done");
  EXPECT_THAT(connect(uri_, 10'000), AllOf(StartsWith("ConnectionError"), HasSubstr("mapping a ring")));
  EXPECT_EQ(get(*other_, "table"), "ok") << "frozen memory needs no mapping at its server";
  EXPECT_THAT(get(*other_, "live"), AllOf(StartsWith("ResourceError"), HasSubstr("vm.max_map_count")));
  EXPECT_THAT(tell("publish file"), StartsWith("ResourceError"));
  EXPECT_THAT(tell("publish snapshot"), StartsWith("ResourceError"));
  // Its thread may get the stack of one that has ended, in a process that had other threads before.
  EXPECT_THAT(tell("serve anew"),
              ::testing::AnyOf("ok", AllOf(StartsWith("ResourceError"), HasSubstr("vm.max_map_count"))));
  ASSERT_EQ(tell("free mappings"), "done");
}

// A consumer that runs out while its server and another consumer go on.
template <typename Scarce>
int consume_without(const ChildProcess::Line& line) {
  Client client(line.hear());
  {
    const Scarce taken;
    line.say(get(client, "table"));
    line.say(get(client, "live"));
  }
  line.say(get(client, "table"));
  line.say(get(client, "live"));
  return 0;
}

class ConsumerExhausted : public ExhaustedTest {
 protected:
  void expect_named(int (*consume)(const ChildProcess::Line&), const char* limit) {
    ChildProcess consumer(consume);
    Server server;
    server.publish("table", Source::table(number_stream(kBatchesOfStream, kRowsOfBatch)));
    server.publish("live", Source::factory([] { return number_stream(kBatchesOfStream, kRowsOfBatch); }));
    consumer.line().say(server.uri());
    EXPECT_THAT(consumer.line().hear(), AllOf(StartsWith("ResourceError"), HasSubstr(limit)));
    EXPECT_THAT(consumer.line().hear(), StartsWith("ResourceError"));
    Client other(server.uri());
    EXPECT_EQ(get(other, "table"), "ok");
    EXPECT_EQ(consumer.line().hear(), "ok") << "once it has enough again";
    EXPECT_EQ(consumer.line().hear(), "ok");
    EXPECT_EQ(consumer.wait(), 0);
  }
};

TEST_F(ConsumerExhausted, AConsumerWithoutDescriptorsSaysSo) {
  expect_named(consume_without<AllDescriptors>, "ulimit -n");
}

// What a connection brings over tcp takes no descriptor, but a second connection does.
int consume_over_tcp(const ChildProcess::Line& line) {
  Client client(line.hear());
  const auto reader = client.get("table");
  {
    const AllDescriptors taken;
    line.say(get(client, "live"));
    line.say(outcome([&] {
      if (take_all(*reader) != kBatchesOfStream * kRowsOfBatch) throw std::logic_error("it came cut short");
    }));
    line.say(get(client, "live"));
  }
  const auto again = client.get("table");
  line.say(get(client, "live"));
  return 0;
}

TEST_F(ConsumerExhausted, AConsumerWithoutDescriptorsOverTcpSaysSoAndItsConnectionGoesOn) {
  ChildProcess consumer(consume_over_tcp);
  Server server(served_over("tcp"));
  server.publish("table", Source::table(number_stream(kBatchesOfStream, kRowsOfBatch)));
  server.publish("live", Source::factory([] { return number_stream(kBatchesOfStream, kRowsOfBatch); }));
  consumer.line().say(server.uri());
  EXPECT_THAT(consumer.line().hear(), AllOf(StartsWith("ResourceError"), HasSubstr("ulimit -n")));
  EXPECT_EQ(consumer.line().hear(), "ok") << "the stream that was under way";
  EXPECT_EQ(consumer.line().hear(), "ok") << "the next one, on its connection";
  Client other(server.uri());
  EXPECT_EQ(get(other, "table"), "ok");
  EXPECT_EQ(consumer.line().hear(), "ok") << "a second connection, once there is enough again";
  EXPECT_EQ(consumer.wait(), 0);
}

TEST_F(ConsumerExhausted, AConsumerWithoutMappingsSaysSo) {
  expect_named(consume_without<AllMappings>, "vm.max_map_count");
}

}  // namespace
}  // namespace crossdock::session
