// Memory of a table that nobody needs any more: it goes without another call, on either side.
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/eventually.h"
#include "support/leftovers.h"
#include "support/process.h"

namespace crossdock::session {
namespace {

using testing::ChildProcess;
using testing::number_at;
using testing::number_stream;

constexpr std::int64_t kRowsOfTable = 1'000'000;  // some 18 MB

// How many mappings of this process have a name with `name` in it.
int mappings_of(std::string_view name) {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find(name) != line.npos;
  return found;
}

// How many descriptors of this process are of files with `name` in theirs.
int descriptors_of(std::string_view name) {
  int found = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    char target[256] = {};
    const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target - 1);
    found += size > 0 && std::string_view(target).find(name) != std::string_view::npos;
  }
  return found;
}

class ReleasedTest : public testing::NoLeftovers {};

TEST_F(ReleasedTest, AWithdrawnTablesMemoryGoesAtAClientThatMakesNoFurtherCall) {
  ChildProcess consumer([](const ChildProcess::Line& line) {
    Client client(line.hear());
    std::vector<array::RecordBatch> kept;
    {
      const auto reader = client.get("table");
      while (auto batch = reader->next()) kept.push_back(*std::move(batch));
    }
    line.say("holding");
    line.hear();
    if (mappings_of("crossdock-table") == 0) return 1;
    if (number_at(kept.front(), 7) != 7) return 2;
    kept.clear();
    if (!testing::eventually([] { return mappings_of("crossdock-table") == 0; })) return 3;
    line.say("released");
    line.hear();
    return 0;
  });
  Server server;
  server.publish("table", Source::table(number_stream(1, kRowsOfTable)));
  consumer.line().say(server.uri());
  ASSERT_EQ(consumer.line().hear(), "holding");
  server.withdraw("table");
  EXPECT_EQ(descriptors_of("crossdock-table"), 1) << "somebody holds it";
  consumer.line().say("go on");
  EXPECT_EQ(consumer.line().hear(), "released");
  EXPECT_TRUE(testing::eventually([] { return descriptors_of("crossdock-table") == 0; }));
  consumer.line().say("end");
  EXPECT_EQ(consumer.wait(), 0);
}

TEST_F(ReleasedTest, ATableThatIsReadAgainIsThereAgain) {
  Server server;
  server.publish("table", Source::table(number_stream(3, 100'000)));
  Client client(server.uri());
  for (int round = 0; round < 3; ++round) {
    std::optional<array::RecordBatch> kept;
    {
      const auto reader = client.get("table");
      kept = reader->next();
      while (reader->next()) {
      }
    }
    EXPECT_EQ(mappings_of("crossdock-table"), 1);
    {
      const auto reader = client.get("table");  // while a batch of the stream before is held
      while (reader->next()) {
      }
      kept.reset();
    }
    EXPECT_TRUE(testing::eventually([] { return mappings_of("crossdock-table") == 0; })) << "round " << round;
  }
}

TEST_F(ReleasedTest, ABatchReleasedWhileAnotherStreamOfItsTableBeginsHarmsNothing) {
  Server server;
  server.publish("table", Source::table(number_stream(3, 1000)));
  Client client(server.uri());
  for (int round = 0; round < 300; ++round) {
    std::vector<array::RecordBatch> kept;
    {
      const auto reader = client.get("table");
      while (auto batch = reader->next()) kept.push_back(*std::move(batch));
    }
    std::thread other([&] { kept.clear(); });
    const auto reader = client.get("table");
    std::int64_t rows = 0;
    while (const auto batch = reader->next()) {
      EXPECT_EQ(number_at(*batch, 999), rows + 999);
      rows += batch->num_rows;
    }
    EXPECT_EQ(rows, 3000);
    other.join();
  }
  EXPECT_EQ(server.stats().protocol_errors, 0u);
}

}  // namespace
}  // namespace crossdock::session
