// Two processes: death, a process that stops, and fork.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <thread>

#include "support.h"
#include "support/process.h"

namespace crossdock::transport::fabric_test {
namespace {

using testing::ChildProcess;

constexpr std::size_t kBody = 16 << 20;
constexpr std::size_t kShortBody = 80'000;

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

/// A server in another process. When it gets a message, it sends bodies without end; after "four", four, and closes.
int stream(const ChildProcess::Line& line) {
  const auto listener = fabric_listen("", 1, 2, {}, nullptr);
  line.say(address_of(*listener));
  const auto connection = accept_one(*listener);
  const Bytes content = pattern(kShortBody);
  const std::vector<ByteSpan> parts = {content};
  try {
    int left = as_text(receive(*connection).bytes) == "four" ? 4 : -1;
    while (left != 0) {
      connection->receive();
      if (connection->below_window(64) && connection->send_body(1, parts, nullptr)) {
        --left;
      } else {
        wait_readable(*connection, WaitMode::kBlock, 0, nullptr);
      }
    }
  } catch (const ConnectionError&) {
    // The client has gone.
  }
  return 0;
}

/// Hands on the bytes of one connection; if asked, late what comes from the server, as after a lost packet.
class SlowLink {
 public:
  explicit SlowLink(const std::string& server) : listening_(loopback_socket()) {
    if (::listen(listening_.get(), 1) != 0) throw std::runtime_error("can't listen");
    thread_ = std::thread([this, to = resolve("fabric", parse_address("fabric", server)).at(0)] { carry(to); });
  }
  ~SlowLink() {
    stopped_ = true;
    thread_.join();
  }
  SlowLink(const SlowLink&) = delete;
  SlowLink& operator=(const SlowLink&) = delete;

  std::string address() const { return "//127.0.0.1:" + std::to_string(port_of(local_address(listening_.get()))); }
  /// From now on.
  void delay(std::chrono::milliseconds time) { delay_ = time; }

 private:
  struct Late {
    Clock::time_point due;
    std::string bytes;  // none: the end
  };

  static std::string read_from(const UniqueFd& socket) {
    std::string bytes(1 << 16, '\0');
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  static void write_to(const UniqueFd& socket, const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t moved = ::send(socket.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (moved <= 0) return;
      done += static_cast<std::size_t>(moved);
    }
  }
  void carry(const SocketAddress& to) {
    pollfd ask{listening_.get(), POLLIN, 0};
    ::poll(&ask, 1, kPatienceMs);
    const UniqueFd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(server.get(), to.get(), to.size) != 0) return;
    std::deque<Late> late;
    bool client_ended = false;
    bool server_ended = false;
    while (!stopped_) {
      pollfd both[] = {{client_ended ? -1 : client.get(), POLLIN, 0}, {server_ended ? -1 : server.get(), POLLIN, 0}};
      ::poll(both, 2, 1);
      if (both[0].revents != 0) {
        const std::string bytes = read_from(client);
        client_ended = bytes.empty();
        if (client_ended) ::shutdown(server.get(), SHUT_WR);
        write_to(server, bytes);
      }
      if (both[1].revents != 0) {
        late.push_back({Clock::now() + delay_.load(), read_from(server)});
        server_ended = late.back().bytes.empty();
      }
      for (; !late.empty() && late.front().due <= Clock::now(); late.pop_front()) {
        if (late.front().bytes.empty()) ::shutdown(client.get(), SHUT_WR);
        write_to(client, late.front().bytes);
      }
    }
  }

  std::atomic<std::chrono::milliseconds> delay_{std::chrono::milliseconds(0)};
  const UniqueFd listening_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

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

/// Whether the client gets an error when its server ends, of which the endpoint knows before the link: the bodies that
/// the link announces later have come in part, and the rest can't be fetched.
TEST_F(FabricProcesses, AKilledServerIsNoticedThoughTheLinkTellsLater) {
  std::array<std::unique_ptr<ChildProcess>, 3> servers;  // before this process starts libfabric
  for (auto& server : servers) server = std::make_unique<ChildProcess>(stream);
  for (const auto& server : servers) {
    SlowLink link(server->line().hear());
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
    client_ = fabric_connect(link.address(), {}, kPatienceMs, nullptr);
    link.delay(std::chrono::milliseconds(50));
    ASSERT_TRUE(client_->send(as_bytes("many"), {}));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(receive(*client_).bytes.size(), kShortBody);
    const auto before = Clock::now();
    server->kill();
    EXPECT_THROW(while (Clock::now() < before + std::chrono::seconds(5)) receive(*client_), ConnectionError);
    EXPECT_LT(Clock::now() - before, std::chrono::seconds(1));
  }
}

TEST_F(FabricProcesses, AServerThatClosesIsNoticedThoughTheLinkTellsLater) {
  const ChildProcess server(stream);
  SlowLink link(server.line().hear());
  if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
  client_ = fabric_connect(link.address(), {}, kPatienceMs, nullptr);
  link.delay(std::chrono::milliseconds(1500));  // the server waits for a second
  ASSERT_TRUE(client_->send(as_bytes("four"), {}));
  EXPECT_THROW(receive(*client_), ConnectionError);
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
