// A consumer that takes nothing for a while, over each transport: both ends sleep, and nothing piles up.
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "transport/fabric.h"
#include "transport/ucx.h"

namespace crossdock::session {
namespace {

using std::chrono::milliseconds;
using testing::number_at;
using transport::Way;

constexpr std::int64_t kRowsOfLargeBatch = 20'000;  // a batch of some 350 KB

struct SlowWay {
  const char* scheme;
  Way way;
};
void PrintTo(const SlowWay& row, std::ostream* out) { *out << row.scheme << " " << transport::way_name(row.way); }

double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

std::int64_t resident_bytes() {
  std::int64_t size = 0;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

class SlowConsumer : public ::testing::TestWithParam<SlowWay> {
 protected:
  void SetUp() override {
    if (GetParam().scheme == std::string_view("ucx") && !transport::find_ucx().found) GTEST_SKIP() << "no UCX";
    if (GetParam().scheme == std::string_view("fabric") && !transport::find_fabric().found) {
      GTEST_SKIP() << "no libfabric";
    }
  }
};

TEST_P(SlowConsumer, CostsNothingWhileItTakesNothing) {
  ServerOptions server_options;
  server_options.uris = {std::string(GetParam().scheme) + ":"};
  Server server(server_options);
  // Bodies of a live stream aren't read.
  const bool live = GetParam().way != Way::kRead;
  server.publish("numbers", live ? Source::factory([] { return testing::number_stream(1'000'000, kRowsOfLargeBatch); })
                                 : Source::table(testing::number_stream(150, kRowsOfLargeBatch)));
  ClientOptions client_options;
  client_options.way = GetParam().way;
  Client client(server.uri(), client_options);
  const auto reader = client.get("numbers", {.read_ahead = 1 << 20});
  std::int64_t next = 0;
  const auto take = [&] {
    const auto batch = reader->next();
    ASSERT_TRUE(batch);
    ASSERT_EQ(number_at(*batch, kRowsOfLargeBatch - 1), ++next * kRowsOfLargeBatch - 1);
  };
  for (int i = 0; i < 3; ++i) take();
  ASSERT_EQ(server.stats().consumers.at(0).way, GetParam().way);

  // Until the server has sent what it may, the network has taken it, and threads of a busy machine have all had a turn.
  const auto sent = [&] { return server.stats().consumers.at(0).batches; };
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::uint64_t batches = 0;
  std::int64_t memory = 0;
  for (int quiet = 0; quiet < 5; ++quiet) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "the server sends without end";
    if (batches != sent() || std::abs(resident_bytes() - memory) > 1 << 20) quiet = 0;
    batches = sent();
    memory = resident_bytes();
    std::this_thread::sleep_for(milliseconds(100));
  }
  const ConsumerStats before = server.stats().consumers.at(0);
  const std::int64_t memory_before = resident_bytes();
  const double cpu_before = cpu_seconds();
  std::this_thread::sleep_for(milliseconds(800));  // is what is tested
  EXPECT_LT(cpu_seconds() - cpu_before, 0.08) << "of both ends, in 0.8 s";
  EXPECT_LT(resident_bytes() - memory_before, 4 << 20);
  const ConsumerStats after = server.stats().consumers.at(0);
  EXPECT_EQ(after.batches, before.batches);
  EXPECT_EQ(after.in_flight, before.in_flight);
  EXPECT_LE(after.in_flight, 2u * server_options.window + 1);
  for (int i = 0; i < 100; ++i) take();
}

INSTANTIATE_TEST_SUITE_P(Over, SlowConsumer,
                         ::testing::Values(SlowWay{"shm", Way::kMap}, SlowWay{"shm", Way::kMessage},
                                           SlowWay{"tcp", Way::kMessage}, SlowWay{"ucx", Way::kMessage},
                                           SlowWay{"ucx", Way::kRead}, SlowWay{"fabric", Way::kMessage},
                                           SlowWay{"fabric", Way::kRead}),
                         [](const auto& row) {
                           return row.param.scheme + std::string("_") + std::string(transport::way_name(row.param.way));
                         });

}  // namespace
}  // namespace crossdock::session
