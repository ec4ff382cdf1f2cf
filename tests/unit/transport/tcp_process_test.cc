// Two processes, two networks: speed of neither, but death, links that fail, and fork.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "support/certificates.h"
#include "support/process.h"
#include "tcp_support.h"

namespace crossdock::transport::tcp_test {
namespace {

std::vector<std::byte> receive_or_throw(Connection& connection, int timeout_ms = 20'000) {
  const std::int64_t deadline = in_ms(timeout_ms);
  for (;;) {
    if (const auto message = connection.receive()) return {message->bytes.begin(), message->bytes.end()};
    if (!wait_readable(connection, WaitMode::kBlock, deadline, nullptr)) throw TimeoutError("no message came");
  }
}

/// Sends what it is given, then waits until all of it was taken.
void send_all(Connection& connection, int count, const std::shared_ptr<const std::vector<std::byte>>& body) {
  const std::int64_t deadline = in_ms(60'000);
  const std::vector<ByteSpan> parts = {ByteSpan(*body).first(body->size() / 3),
                                       ByteSpan(*body).subspan(body->size() / 3)};
  for (int sent = 0; sent < count || !connection.below_window(1);) {
    if (sent < count && connection.below_window(8) &&
        connection.send_body(static_cast<std::uint64_t>(sent), parts, body)) {
      ++sent;
      continue;
    }
    if (connection.receive()) throw ProtocolError("nothing was to come");
    if (!wait_readable(connection, WaitMode::kBlock, deadline, nullptr)) throw TimeoutError("it isn't taken");
  }
}

void take_all(Connection& connection, int count, const std::vector<std::byte>& body) {
  for (int i = 0; i < count; ++i) {
    const auto got = receive_or_throw(connection);
    if (got != body) throw InvalidDataError("body " + std::to_string(i) + " came out wrong");
  }
}

std::shared_ptr<const std::vector<std::byte>> some_body(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

// --- two processes ---

/// Over tcp, or over tcp+tls.
class TcpProcesses : public ::testing::TestWithParam<bool> {
 protected:
  void start(const std::function<void(Connection&)>& run) {
    const testing::TestCertificates certificates;
    listener_ = GetParam() ? tcp_tls_listen("", 0, 0, {}, certificates.server_options(), nullptr)
                           : tcp_listen("", 0, 0, {}, nullptr);
    child_ = std::make_unique<testing::ChildProcess>([&](const auto&) {
      const auto client =
          GetParam() ? tcp_tls_connect(address_of(*listener_), {}, certificates.client_options(), 10'000, nullptr)
                     : tcp_connect(address_of(*listener_), {}, 10'000, nullptr);
      run(*client);
      return 0;
    });
    server_ = accept_one(*listener_);
    ASSERT_TRUE(server_);
  }

  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> server_;
  std::unique_ptr<testing::ChildProcess> child_;
};

TEST_P(TcpProcesses, BodiesCrossBothWays) {
  const auto body = some_body(3'000'001);
  start([&](Connection& client) {
    take_all(client, 20, *body);
    send_all(client, 20, body);
  });
  send_all(*server_, 20, body);
  take_all(*server_, 20, *body);
  EXPECT_EQ(child_->wait(), 0);
}

TEST_P(TcpProcesses, AKilledPeerIsNoticedAfterItsLastWords) {
  start([](Connection& client) {
    client.send(as_bytes("last words"), {});
    ::pause();
  });
  ASSERT_TRUE(wait_readable(*server_, WaitMode::kBlock, in_ms(10'000), nullptr));
  child_->kill();
  EXPECT_EQ(as_text(receive_or_throw(*server_)), "last words");
  EXPECT_THROW(receive_or_throw(*server_), ConnectionError);
  EXPECT_THROW(server_->send(as_bytes("x"), {}), ConnectionError);
}

TEST_P(TcpProcesses, ASenderAloneNoticesAKilledPeer) {
  start([](Connection&) { ::pause(); });
  child_->kill();
  EXPECT_THROW(
      {
        const std::int64_t deadline = in_ms(10'000);
        while (in_ms(0) < deadline) {
          server_->send(as_bytes("x"), {});
          server_->flush();
        }
      },
      ConnectionError);
}

TEST_P(TcpProcesses, AForkedChildMayNotUseWhatItInherited) {
  start([](Connection& client) {
    for (int i = 0; i < 2; ++i) client.send(receive_or_throw(client), {});
    receive_or_throw(client);
  });
  server_->send(as_bytes("before"), {});
  EXPECT_EQ(as_text(receive_or_throw(*server_)), "before");
  testing::ChildProcess forked([this](const auto&) {
    const auto forbidden = [](const std::function<void()>& run) {
      try {
        run();
      } catch (const ForkError&) {
        return;
      }
      throw std::runtime_error("allowed in a forked child");
    };
    Connection& it = *server_;
    forbidden([&] { it.send(as_bytes("x"), {}); });
    forbidden([&] { it.send_body(1, {}, nullptr); });
    forbidden([&] { it.receive(); });
    forbidden([&] { it.in_flight(); });
    forbidden([&] { it.below_window(1); });
    forbidden([&] { it.flush(); });
    forbidden([&] { it.prepare_sleep(); });
    forbidden([&] { it.wake(); });
    forbidden([&] { it.readable(); });
    forbidden([&] { listener_->accept(); });
    server_.reset();
    listener_.reset();
    return 0;
  });
  EXPECT_EQ(forked.wait(), 0);
  server_->send(as_bytes("after"), {});
  EXPECT_EQ(as_text(receive_or_throw(*server_)), "after") << "the parent goes on";
  server_->send(as_bytes("last"), {});
  EXPECT_EQ(child_->wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Plain, TcpProcesses, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Tls, TcpProcesses, ::testing::Values(true));

// --- two networks ---

/// A network of its own, kept by a thread that lives in it.
class Network {
 public:
  Network() {
    std::promise<int> made;
    anchor_ = std::jthread([&](const std::stop_token& stop) {
      const int error = ::unshare(CLONE_NEWNET) == 0 ? 0 : errno;
      tid_ = ::gettid();
      made.set_value(error);
      std::promise<void> over;
      const std::stop_callback end(stop, [&] { over.set_value(); });
      over.get_future().wait();
    });
    error_ = made.get_future().get();
  }
  int error() const { return error_; }
  pid_t tid() const { return tid_; }
  /// Runs `body` in this network, and returns what it returns.
  template <typename F>
  auto run(F body) const {
    return std::async(std::launch::async,
                      [&] {
                        const std::string path = "/proc/self/task/" + std::to_string(tid_) + "/ns/net";
                        const UniqueFd network(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
                        if (::setns(network.get(), CLONE_NEWNET) != 0) throw_errno(errno, "entering a network");
                        return body();
                      })
        .get();
  }
  /// Runs a command in this network.
  void command(const std::string& line) const {
    run([&] {
      if (std::system((line + " >/dev/null 2>&1").c_str()) != 0) throw std::runtime_error(line + " failed");
    });
  }

 private:
  pid_t tid_ = 0;
  int error_ = 0;
  std::jthread anchor_;
};

class TcpNetworks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (here_.error() != 0 || there_.error() != 0) {
      GTEST_SKIP() << "making a network needs CAP_SYS_ADMIN, which this user hasn't got here";
    }
    if (std::system("command -v ip >/dev/null 2>&1") != 0) GTEST_SKIP() << "joining networks needs ip (iproute2)";
    here_.command("ip link add near type veth peer name far netns " + std::to_string(there_.tid()));
    here_.command("ip addr add 10.77.0.1/24 dev near && ip link set near up");
    there_.command("ip addr add 10.77.0.2/24 dev far && ip link set far up");
  }
  void connect(const TcpOptions& options = {}) {
    listener_ = there_.run([&] { return tcp_listen("//10.77.0.2", 0, 0, options, nullptr); });
    auto connecting = std::async(std::launch::async, [&] {
      return here_.run([&] { return tcp_connect(address_of(*listener_), options, 20'000, nullptr); });
    });
    server_ = accept_one(*listener_, 20'000);
    client_ = connecting.get();
    ASSERT_TRUE(server_);
  }
  void set_link(const char* state) { here_.command(std::string("ip link set near ") + state); }

  Network here_;
  Network there_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> server_;
  std::unique_ptr<Connection> client_;
};

TEST_F(TcpNetworks, BodiesCrossWithChecksums) {
  TcpOptions options;
  options.checksum = Checksum::kOn;
  connect(options);
  EXPECT_TRUE(server_->agreement().checksums);
  const auto body = some_body(1 << 20);
  auto taking = std::async(std::launch::async, [&] { take_all(*client_, 50, *body); });
  send_all(*server_, 50, body);
  taking.get();
}

TEST_F(TcpNetworks, BodiesCrossWithoutChecksums) {
  connect();
  EXPECT_FALSE(server_->agreement().checksums);
  const auto body = some_body(1 << 20);
  auto taking = std::async(std::launch::async, [&] { take_all(*client_, 50, *body); });
  send_all(*server_, 50, body);
  taking.get();
}

TEST_F(TcpNetworks, ALinkThatFailsForAWhileOnlyStalls) {
  connect();
  const auto body = some_body(1 << 20);
  set_link("down");
  auto taking = std::async(std::launch::async, [&] { take_all(*client_, 20, *body); });
  auto sending = std::async(std::launch::async, [&] { send_all(*server_, 20, body); });
  // That something doesn't happen has no event; too short a time here can only let a fault pass, never fail the test.
  EXPECT_EQ(taking.wait_for(std::chrono::milliseconds(500)), std::future_status::timeout) << "nothing can cross";
  set_link("up");
  taking.get();
  sending.get();
}

TEST_F(TcpNetworks, ALinkThatFailsForGoodEndsASenderAfterItsTime) {
  TcpOptions options;
  options.user_timeout = std::chrono::milliseconds(1000);
  connect(options);
  set_link("down");
  EXPECT_THROW(send_all(*server_, 1, some_body(1 << 20)), ConnectionError);
}

TEST_F(TcpNetworks, AHalfOpenPeerIsFoundByProbes) {
  TcpOptions options;
  options.keepalive = std::chrono::seconds(1);
  connect(options);
  set_link("down");
  EXPECT_THROW(receive_or_throw(*client_, 20'000), ConnectionError);
}

TEST_F(TcpNetworks, AnAddressThatNobodyAnswersTimesOut) {
  EXPECT_THROW(here_.run([] { return tcp_connect("//10.77.0.9:7700", {}, 200, nullptr); }), TimeoutError);
  EXPECT_THROW(here_.run([] { return tcp_connect("//10.99.0.9:7700", {}, 200, nullptr); }), ConnectionError)
      << "no way there";
}

}  // namespace
}  // namespace crossdock::transport::tcp_test
