// Two processes: death, a process that stops, and fork.
#include <signal.h>
#include <sys/wait.h>

#include "support.h"
#include "support/process.h"

namespace crossdock::transport::fabric_test {
namespace {

using testing::ChildProcess;

constexpr std::size_t kBody = 16 << 20;

/// A server in another process. It announces a region of kBody bytes under number 1, and sends what it is asked for: a
/// message of one byte, "m", is answered with a message; "b", with bodies without end.
int serve(const ChildProcess::Line& line) {
  const auto listener = fabric_listen("", 1, 2, {}, nullptr);
  line.say(address_of(*listener));
  const auto connection = accept_one(*listener);
  device::RegionWriter writer("process-test");
  const Bytes content = pattern(kBody);
  writer.append(content);
  connection->announce(1, writer.freeze());
  bool bodies = false;
  const std::vector<ByteSpan> parts = {content};
  try {
    for (;;) {
      if (const auto message = connection->receive()) {
        bodies = as_text(message->bytes) == "b";
        if (!bodies) connection->send(as_bytes("answer"), {});
        continue;
      }
      if (bodies && connection->below_window(4) && connection->send_body(1, parts, nullptr)) continue;
      wait_readable(*connection, WaitMode::kBlock, 0, nullptr);
    }
  } catch (const ConnectionError&) {
    return 0;
  }
}

class FabricProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Library::find_loaded("libfabric.so.1") == nullptr) return;
    GTEST_SKIP() << "forks, and another test of this process has started libfabric: runs alone";
  }
  void start() {
    server_ = std::make_unique<ChildProcess>(serve);
    const std::string address = server_->line().hear();
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
    client_ = fabric_connect(address, {}, kPatienceMs, nullptr);
  }
  /// Kills the server, and expects the error within a second.
  void expect_death() {
    const auto before = Clock::now();
    server_->kill();
    EXPECT_THROW(while (Clock::now() < before + std::chrono::seconds(5)) receive(*client_), ConnectionError);
    EXPECT_LT(Clock::now() - before, std::chrono::seconds(1));
    EXPECT_THROW(client_->send(as_bytes("x"), {}), ConnectionError);
  }
  std::unique_ptr<Reading> read(Bytes& to) {
    const std::uint64_t base = (std::uint64_t{1} << 48) + 64;
    await_region(*client_, base);
    const ReadPart part{base, to.size(), to.data()};
    return client_->read({&part, 1}, nullptr);
  }

  std::unique_ptr<ChildProcess> server_;
  std::unique_ptr<Connection> client_;
};

TEST_F(FabricProcesses, AKilledPeerIsNoticedWhileIdle) {
  start();
  ASSERT_TRUE(client_->send(as_bytes("m"), {}));
  EXPECT_EQ(as_text(receive(*client_).bytes), "answer");
  expect_death();
}

TEST_F(FabricProcesses, AKilledPeerIsNoticedInTheMiddleOfABody) {
  start();
  ASSERT_TRUE(client_->send(as_bytes("b"), {}));
  EXPECT_EQ(receive(*client_).bytes.size(), kBody);
  EXPECT_TRUE(std::ranges::equal(receive(*client_).bytes, pattern(kBody)));
  expect_death();
}

TEST_F(FabricProcesses, AKilledPeerIsNoticedInTheMiddleOfARead) {
  start();
  Bytes to(kBody);
  const auto first = read(to);
  while (!first->done()) wait_readable(*client_, WaitMode::kBlock, 0, nullptr), client_->receive();
  EXPECT_TRUE(std::ranges::equal(to, pattern(kBody)));
  const auto second = read(to);
  EXPECT_FALSE(second->done());
  const auto before = Clock::now();
  server_->kill();
  EXPECT_THROW(
      while (!second->done() && Clock::now() < before + std::chrono::seconds(5)) {
        wait_readable(*client_, WaitMode::kBlock, in_ns(before + std::chrono::seconds(5)), nullptr);
      },
      ConnectionError);
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(1));
}

TEST_F(FabricProcesses, APeerThatStopsForAWhileGoesOn) {
  start();
  ASSERT_TRUE(client_->send(as_bytes("b"), {}));
  EXPECT_EQ(receive(*client_).bytes.size(), kBody);
  ::kill(server_->pid(), SIGSTOP);
  const std::int64_t until = in_ns(Clock::now() + std::chrono::seconds(2));
  int came = 0;
  while (wait_readable(*client_, WaitMode::kBlock, until, nullptr)) came += client_->receive().has_value();
  EXPECT_LE(came, 4) << "what was under way";
  ::kill(server_->pid(), SIGCONT);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::ranges::equal(receive(*client_).bytes, pattern(kBody)));
}

TEST_F(FabricProcesses, AForkedChildLeavesTheConnectionAlone) {
  start();
  const pid_t child = ::fork();
  if (child == 0) {
    int refused = 0;
    try {
      client_->receive();
    } catch (const ForkError&) {
      refused |= 1;
    }
    try {
      client_->send_body(1, {}, nullptr);
    } catch (const ForkError&) {
      refused |= 2;
    }
    client_.reset();
    ::_exit(refused);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  ASSERT_TRUE(client_->send(as_bytes("b"), {}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::ranges::equal(receive(*client_).bytes, pattern(kBody)));
}

}  // namespace
}  // namespace crossdock::transport::fabric_test
