// A server's system refuses to map or to register memory that a client would read from afar.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>

#include "core/library.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "crossdock/session/transports.h"
#include "support/batches.h"
#include "support/process.h"
#include "transport/fabric.h"
#include "transport/ucx.h"
#include "unit/device/support.h"

namespace crossdock::session {
namespace {

using ::testing::AnyOf;
using testing::ChildProcess;
using testing::number_at;
using testing::number_batch;
using ::testing::StartsWith;
using transport::Way;

constexpr std::int64_t kSmall = 1000;
constexpr std::int64_t kLarge = 3'000'000;  // rows, of some 60 MB

/// The batch in an arena: memory that its process has mapped.
array::RecordBatch in_arena(const array::RecordBatch& batch, device::Arena& arena) {
  array::RecordBatch out = batch;
  for (array::BufferView& buffer : out.buffers) {
    if (buffer.size == 0) continue;
    const auto size = static_cast<std::size_t>(buffer.size);
    buffer.data = std::memcpy(arena.allocate(size), buffer.data, size);
  }
  return out;
}

std::string outcome(const std::function<void()>& work) {
  try {
    work();
    return "ok";
  } catch (const Error& error) {
    return std::string(error_name(error.code())) + ": " + error.what();
  }
}

/// A server with a table of two regions, one that it has mapped and a large one that it hasn't, and one with the first
/// alone. Says its URI; then does as it is told: "refuse" maps of more than a few MiB, "allow" them, say how many
/// "connections" it has had, or make a "location".
int serve(const ChildProcess::Line& line, const std::string& scheme) {
  TransportOptions transports;
  transports.ucx.remote_reads = true;
  ServerOptions options;
  options.uris = {scheme};
  options.transports = make_transports(transports);
  options.runtime = std::make_shared<Runtime>();
  if (!(scheme == "ucx:" ? transport::find_ucx().found : transport::find_fabric().found)) {
    line.say("none");
    return 0;
  }
  Server server(options);
  const auto arena = options.runtime->make_arena(1 << 20);
  const auto other = options.runtime->make_arena(1 << 20);
  const array::RecordBatch small = number_batch(0, kSmall);
  server.publish("both", Source::table(testing::stream_of({in_arena(small, *arena), number_batch(kSmall, kLarge)})));
  server.publish("small", Source::table(testing::stream_of({in_arena(small, *other)})));
  server.publish("large", Source::table(testing::stream_of({number_batch(0, kLarge)})));
  line.say(server.uri());
  std::unique_ptr<testing::ScopedLimit> limit;
  for (std::string order; !(order = line.hear()).empty();) {
    std::string answer = "done";
    if (order == "refuse") {
      limit = std::make_unique<testing::ScopedLimit>(RLIMIT_AS, testing::address_space() + (16 << 20));
    }
    if (order == "allow") limit.reset();
    if (order == "connections") answer = std::to_string(server.stats().accepted_connections);
    if (order == "location") answer = outcome([&] { server.location("large"); });
    line.say(answer);
  }
  return 0;
}

class RefusedMemory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer needs address space of its own";
#endif
    for (const char* library : {"libucp.so.0", "libfabric.so.1"}) {
      if (Library::find_loaded(library) != nullptr)
        GTEST_SKIP() << "forks, and " << library << " is loaded: runs alone";
    }
    server_ = std::make_unique<ChildProcess>([](const auto& line) { return serve(line, GetParam()); });
    uri_ = server_->line().hear();
    ASSERT_FALSE(uri_.empty());
    if (uri_ == "none") GTEST_SKIP() << "no " << GetParam();
  }
  std::string tell(const std::string& order) {
    server_->line().say(order);
    return server_->line().hear();
  }
  Client connect(std::optional<Way> way = Way::kRead) const {
    ClientOptions options;
    options.way = way;
    options.timeout = std::chrono::milliseconds(20'000);
    return Client(uri_, options);
  }
  /// Gets a table. `*rows`: of the batches that came before an error.
  static std::string get(Client& client, const char* name, std::int64_t* rows, const GetOptions& options = {}) {
    *rows = 0;
    return outcome([&] {
      const auto reader = client.get(name, options);
      while (const auto batch = reader->next()) {
        EXPECT_EQ(number_at(*batch, 0), *rows);
        EXPECT_EQ(number_at(*batch, batch->num_rows - 1), *rows + batch->num_rows - 1);
        *rows += batch->num_rows;
      }
    });
  }

  std::unique_ptr<ChildProcess> server_;
  std::string uri_;
  std::int64_t rows_ = 0;
};

TEST_P(RefusedMemory, IsTheErrorOfAStreamAlone) {
  const auto refused = [](bool chooses) {
    const auto lacks = StartsWith("ResourceError: the server, not this client, lacks a resource");
    return chooses ? ::testing::Matcher<std::string>(lacks)
                   : AnyOf(lacks, StartsWith("UnsupportedError: bodies of this source can't reach this consumer"));
  };
  for (const bool chooses : {false, true}) {
    Client client = connect(chooses ? std::nullopt : std::optional(Way::kRead));
    GetOptions options;
    if (chooses) options.columns = {"number"};
    EXPECT_EQ(get(client, "small", &rows_, options), "ok");
    const std::string connections = tell("connections");
    ASSERT_EQ(tell("refuse"), "done");
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(get(client, "large", &rows_, options), refused(chooses));
      EXPECT_EQ(rows_, 0);
      EXPECT_EQ(get(client, "small", &rows_, options), "ok");
      EXPECT_EQ(rows_, kSmall);
    }
    EXPECT_EQ(tell("connections"), connections) << "the client keeps its own";
    // In mid-stream. A client gives up its connection where a read was under way.
    EXPECT_THAT(get(client, "both", &rows_, options), refused(chooses));
    EXPECT_LE(rows_, kSmall);
    ASSERT_EQ(tell("allow"), "done");
  }
  Client client = connect();
  EXPECT_EQ(get(client, "both", &rows_), "ok");
  EXPECT_EQ(rows_, kSmall + kLarge);
}

TEST_P(RefusedMemory, IsNoneThatIsKnownAlready) {
  Client first = connect();
  ASSERT_EQ(get(first, "both", &rows_), "ok");
  const auto reader = first.get("both");
  ASSERT_TRUE(reader->next());
  ASSERT_EQ(tell("refuse"), "done");
  const auto batch = reader->next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(number_at(*batch, kLarge - 1), kSmall + kLarge - 1);
  EXPECT_FALSE(reader->next());
}

TEST_P(RefusedMemory, HasNoLocation) {
  if (GetParam() != std::string_view("ucx:")) GTEST_SKIP() << "locations by which memory is read are those of ucx";
  ASSERT_EQ(tell("refuse"), "done");
  EXPECT_THAT(tell("location"), StartsWith("ResourceError"));
  ASSERT_EQ(tell("allow"), "done");
  EXPECT_EQ(tell("location"), "ok");
}

INSTANTIATE_TEST_SUITE_P(Over, RefusedMemory, ::testing::Values("ucx:", "fabric:"), [](const auto& over) {
  const std::string scheme = over.param;
  return scheme.substr(0, scheme.size() - 1);
});

}  // namespace
}  // namespace crossdock::session
