#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/failing_allocations.h"
#include "support/leftovers.h"
#include "support/log_lines.h"
#include "support/process.h"
#include "support/temporary_folder.h"

/// Every allocation of a server's and a consumer's whole life fails once, on either side.
namespace crossdock::session {
namespace {

using testing::ChildProcess;
using testing::FailingAllocations;
using testing::number_stream;
using testing::Whose;

constexpr int kFewBatches = 3;
constexpr std::int64_t kFewRows = 10;

std::int64_t rows_of(Client& client, const char* name) {
  GetOptions options;
  options.timeout = std::chrono::milliseconds(10'000);
  const auto reader = client.get(name, options);
  std::int64_t rows = 0;
  while (const auto batch = reader->next()) rows += batch->num_rows;
  return rows;
}

struct Outcome {
  std::int64_t allocations = 0;
  bool failed = false;  ///< By a named error.
  std::string wrong;    ///< What must not be; empty if nothing.
};

// Publish, get, statistics, withdraw: what a server and a consumer of one process do. `*consuming` tells who is at it.
void live(std::unique_ptr<Server>* server, ServerOptions options, bool* consuming) {
  *server = std::make_unique<Server>(std::move(options));
  (*server)->publish("table", Source::table(number_stream(kFewBatches, kFewRows)));
  (*server)->publish("live", Source::factory([] { return number_stream(kFewBatches, kFewRows); }));
  *consuming = true;
  ClientOptions patience;
  patience.timeout = std::chrono::milliseconds(10'000);
  Client client((*server)->uri(), patience);
  for (const char* name : {"table", "live", "table"}) {
    if (rows_of(client, name) != kFewBatches * kFewRows) throw std::logic_error(std::string(name) + " came cut short");
  }
  client.list();
  *consuming = false;
  (*server)->stats();
  (*server)->withdraw("table");
}

Outcome run(Whose whose, std::int64_t first, std::int64_t count) {
  Outcome outcome;
  const int before = testing::open_descriptors();
  testing::LogLines log;
  ServerOptions options;
  options.log = log.callback();
  {
    std::unique_ptr<Server> server;
    {
      const FailingAllocations failing(whose, first, count);
      bool consuming = false;
      try {
        live(&server, options, &consuming);
      } catch (const TimeoutError& error) {
        outcome.wrong = std::string("a hang: ") + error.what();
      } catch (const Error&) {
        outcome.failed = true;
      } catch (const std::bad_alloc&) {
        outcome.failed = true;
        if (whose == Whose::kOthers && consuming) outcome.wrong = "the server's lack of memory came without a name";
      } catch (const std::exception& error) {
        outcome.wrong = error.what();
      }
      outcome.allocations = FailingAllocations::seen();
    }
    if (!outcome.wrong.empty()) return outcome;
    // Whatever failed, the server is as good as new.
    try {
      if (!server) server = std::make_unique<Server>(options);
      server->publish("after", Source::table(number_stream(kFewBatches, kFewRows)));
      server->publish("live after", Source::factory([] { return number_stream(kFewBatches, kFewRows); }));
      {
        Client client(server->uri());
        if (rows_of(client, "after") != kFewBatches * kFewRows ||
            rows_of(client, "live after") != kFewBatches * kFewRows) {
          outcome.wrong = "a table came cut short afterwards";
        }
      }
      const bool released = log.wait_until([&] { return server->stats().consumers.empty(); });
      if (!released) outcome.wrong = "a consumer that is gone still has leases";
    } catch (const std::exception& error) {
      outcome.wrong = std::string("afterwards: ") + error.what();
    }
  }
  if (outcome.wrong.empty() && !testing::open_again_as_before(before)) outcome.wrong = "descriptors are left open";
  return outcome;
}

// In a child: std::terminate, or a hang, must not end the test program.
int fail_each(const ChildProcess::Line& line, Whose whose, std::int64_t count, const std::string& folder) {
  ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  run(whose, 0, 0);  // what is made once in a process
  const std::int64_t n = run(whose, 0, 0).allocations;
  int failed = 0;
  for (std::int64_t first = 0; first < n; first += count) {
    line.say(std::to_string(first));
    ::alarm(60);
    Outcome outcome = run(whose, first, count);
    failed += outcome.failed;
    if (outcome.wrong.empty() && !std::filesystem::is_empty(folder))
      outcome.wrong = "a file is left in the run-time folder";
    if (!outcome.wrong.empty()) line.say(std::to_string(first) + " of " + std::to_string(n) + ": " + outcome.wrong);
  }
  line.say(std::to_string(failed) + " failed");
  return 0;
}

class NoMemoryTest : public ::testing::TestWithParam<Whose> {};
INSTANTIATE_TEST_SUITE_P(Threads, NoMemoryTest, ::testing::Values(Whose::kMine, Whose::kOthers),
                         [](const auto& test) { return test.param == Whose::kMine ? "OfTheUser" : "OfTheServer"; });

void expect_named_errors(std::int64_t count) {
  const testing::TemporaryFolder folder;
  ChildProcess child(
      [&](const ChildProcess::Line& line) { return fail_each(line, NoMemoryTest::GetParam(), count, folder / ""); });
  std::string last;
  for (std::string heard; !(heard = child.line().hear()).empty(); last = heard) {
    if (heard.find(':') != std::string::npos) ADD_FAILURE() << "allocation " << heard;
  }
  EXPECT_EQ(child.wait(), 0) << "it ended (-6: std::terminate, -14: a hang) where allocation " << last << " failed";
  EXPECT_TRUE(last.ends_with(" failed")) << last;
  EXPECT_GT(std::atoi(last.c_str()), 10) << "hardly any of the failures was felt";
}

TEST_P(NoMemoryTest, EachAllocationThatFailsIsANamedErrorAndNothingMore) { expect_named_errors(1); }

TEST_P(NoMemoryTest, SoAreFiveInARow) { expect_named_errors(5); }

}  // namespace
}  // namespace crossdock::session
