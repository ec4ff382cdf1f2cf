// The loop that the listeners at sockets share, with a handshake made for these tests: each byte of a client asks the
// server for one outcome.
#include "transport/internal/socket_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstddef>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/core/error.h"
#include "transport/memory.h"

namespace crossdock::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kDelay = 200ms;
constexpr std::size_t kMost = HandshakeQueue::kMaxHandshakes;

/// The knobs of a server, and the calls that it got.
struct Script {
  int steps = 1;            // of complete()
  bool fails_late = false;  // complete() sets the connection, then throws
  bool loses = false;       // begin() throws
  const char* obstacle = nullptr;
  int idle_calls = 0;
  std::vector<std::string> log;
};

class ScriptedHandshake final : public PendingHandshake {
 public:
  ScriptedHandshake(Script& script, UniqueFd socket, const std::string& where)
      : PendingHandshake(where), script_(script), socket_(std::move(socket)) {}
  int descriptor() const noexcept override { return socket_.get(); }
  State read() override {
    char order = 0;
    const ssize_t got = ::recv(socket_.get(), &order, 1, MSG_DONTWAIT);
    if (got == 0) return State::kEnded;
    if (got < 0) return State::kWaiting;
    switch (order) {
      case 'w': return State::kWaiting;
      case 'c': return State::kReady;
      case 'p': throw ProtocolError("nonsense");
      case 's': throw ResourceError("no space");
      case 'm': throw std::bad_alloc();
      case 'v': throw Rejection{{Refusal::kOtherVersion, "another version"}};
      case 'd': throw Rejection{{Refusal::kNotAllowed, "a wrong word"}, kDelay};
      default: throw std::logic_error("no such order");
    }
  }
  State complete(std::unique_ptr<Connection>* connection) override {
    pollfd ask{socket_.get(), POLLRDHUP, 0};
    if (::poll(&ask, 1, 0) > 0) return State::kEnded;
    if (--script_.steps > 0) return State::kReady;
    *connection = memory_pair({.peer = where()}, {}).first;
    if (script_.fails_late) throw ResourceError("no room for the welcome");
    return State::kConnected;
  }
  void send(const Refused& refused) override {
    const std::string answer = std::to_string(static_cast<int>(refused.code)) + " " + refused.reason;
    ::send(socket_.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  Script& script_;
  const UniqueFd socket_;
};

/// Listens at a Unix socket without a file.
class ScriptedSocket final : public ServerSocket {
 public:
  explicit ScriptedSocket(Script& script)
      : ServerSocket([&script](LogLevel, std::string_view text) { script.log.emplace_back(text); }), script_(script) {
    sockaddr_un any{};
    any.sun_family = AF_UNIX;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any.sun_family), 0);
    EXPECT_EQ(::listen(socket_.get(), 200), 0);
  }
  int descriptor() const noexcept override { return socket_.get(); }
  std::string uri() const override { return "scripted:"; }
  std::string where() const override { return "the script"; }
  std::unique_ptr<PendingHandshake> begin(UniqueFd client) override {
    if (script_.loses) throw SystemError("its socket broke");
    return std::make_unique<ScriptedHandshake>(script_, std::move(client), "client " + std::to_string(++clients_));
  }
  const char* obstacle() const noexcept override { return script_.obstacle; }
  void idle() noexcept override { ++script_.idle_calls; }

 private:
  Script& script_;
  const UniqueFd socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  int clients_ = 0;
};

class SocketListenerTest : public ::testing::Test {
 protected:
  /// A client that sends `orders` at once.
  UniqueFd client(std::string_view orders = "") {
    sockaddr_un address{};
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    send(socket, orders);
    return socket;
  }
  std::vector<UniqueFd> clients(std::size_t n, std::string_view orders = "") {
    std::vector<UniqueFd> crowd;
    while (crowd.size() < n) crowd.push_back(client(orders));
    return crowd;
  }
  static void send(const UniqueFd& socket, std::string_view orders) {
    EXPECT_EQ(::send(socket.get(), orders.data(), orders.size(), MSG_NOSIGNAL), static_cast<ssize_t>(orders.size()));
  }
  /// The answer that has arrived; empty if there is none.
  static std::string answer(const UniqueFd& socket) {
    char text[200];
    const ssize_t got = ::recv(socket.get(), text, sizeof text, MSG_DONTWAIT);
    return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : "";
  }
  /// Whether the listener has something to do, now or within `limit`.
  bool ready(std::chrono::milliseconds limit = 0ms) const {
    pollfd ask{listener_.descriptor(), POLLIN, 0};
    return ::poll(&ask, 1, static_cast<int>(limit.count())) > 0;
  }
  /// Calls accept() while there is something to do. Returns the names of the clients that are connected.
  std::vector<std::string> accept_all() {
    std::vector<std::string> names;
    while (ready()) {
      if (const auto connection = listener_.accept()) names.push_back(connection->agreement().peer);
    }
    return names;
  }

  Script script_;
  std::unique_ptr<ScriptedSocket> made_ = std::make_unique<ScriptedSocket>(script_);
  const int listening_ = made_->descriptor();
  SocketListener listener_{std::move(made_), "this scripted listener", 500ms};
};

TEST_F(SocketListenerTest, ClientsAreConnectedInTheirOrder) {
  EXPECT_FALSE(ready());
  const UniqueFd silent = client();
  const auto eager = clients(3, "c");
  EXPECT_THAT(accept_all(), ElementsAre("client 2", "client 3", "client 4"));
  EXPECT_EQ(listener_.handshakes(), 1U);
  send(silent, "w");
  EXPECT_THAT(accept_all(), ElementsAre());
  send(silent, "c");
  EXPECT_THAT(accept_all(), ElementsAre("client 1"));
  EXPECT_EQ(listener_.handshakes(), 0U);
  EXPECT_THAT(script_.log, ElementsAre());
}

TEST_F(SocketListenerTest, ACallDoesOneStepOfMakingAConnection) {
  script_.steps = 3;
  const UniqueFd eager = client("c");
  EXPECT_FALSE(listener_.accept());
  EXPECT_TRUE(ready()) << "there is more to do";
  const UniqueFd next = client();
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(listener_.handshakes(), 1U) << "the next client is accepted after that";
  EXPECT_TRUE(listener_.accept());
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(listener_.handshakes(), 1U);
  EXPECT_FALSE(ready());
}

TEST_F(SocketListenerTest, EachErrorIsARejectionOfItsKind) {
  const auto rejected = [&](const char* order) {
    const UniqueFd socket = client(order);
    EXPECT_FALSE(listener_.accept());
    EXPECT_EQ(listener_.handshakes(), 0U);
    return answer(socket);
  };
  EXPECT_EQ(rejected("p"), "3 nonsense");
  EXPECT_EQ(rejected("s"), "4 no space");
  EXPECT_EQ(rejected("m"), "4 the server has no memory");
  EXPECT_EQ(rejected("v"), "1 another version");
  EXPECT_THAT(script_.log,
              ElementsAre("client 1 was rejected: nonsense", "client 2 was rejected: no space",
                          "client 3 was rejected: the server has no memory", "client 4 was rejected: another version"));
}

TEST_F(SocketListenerTest, AConnectionThatFailsAtItsEndIsNotReturned) {
  script_.fails_late = true;
  const UniqueFd eager = client("c");
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(answer(eager), "4 no room for the welcome");
  EXPECT_EQ(listener_.handshakes(), 0U);
}

TEST_F(SocketListenerTest, ClientsThatLeaveAreLogged) {
  client();
  accept_all();
  UniqueFd leaves = client("c");
  script_.steps = 100;
  EXPECT_FALSE(listener_.accept());
  leaves.reset();
  EXPECT_THAT(accept_all(), ElementsAre());
  script_.loses = true;
  const UniqueFd lost = client();
  EXPECT_THAT(accept_all(), ElementsAre());
  EXPECT_THAT(script_.log,
              ElementsAre("client 1 disconnected without a handshake", "client 2 disconnected during its handshake",
                          "a client of the script was lost: its socket broke"));
}

TEST_F(SocketListenerTest, MemoryForTheNextConnectionIsReleasedOnceNobodyIsLeft) {
  UniqueFd leaves = client("c");
  script_.steps = 2;
  EXPECT_FALSE(listener_.accept());
  leaves.reset();
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(listener_.handshakes(), 0U);
  EXPECT_EQ(script_.idle_calls, 0) << "the next client may come in the next call";
  EXPECT_TRUE(ready());
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(script_.idle_calls, 1);
  EXPECT_FALSE(ready());
}

TEST_F(SocketListenerTest, AClientThatStallsIsRejectedInTime) {
  const auto begin = std::chrono::steady_clock::now();
  const UniqueFd silent = client("ww");
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(answer(silent), "");
  while (listener_.handshakes() > 0) {
    ASSERT_TRUE(ready(5s)) << "the deadline wakes the listener";
    EXPECT_FALSE(listener_.accept());
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 500ms);
  EXPECT_EQ(answer(silent), "3 no handshake arrived within 0.5 s");
}

TEST_F(SocketListenerTest, TheOldestGivesWayToANewClient) {
  auto crowd = clients(kMost);
  accept_all();
  EXPECT_EQ(listener_.handshakes(), kMost);
  crowd.push_back(client());
  accept_all();
  EXPECT_EQ(listener_.handshakes(), kMost);
  EXPECT_EQ(answer(crowd[0]), "4 too many handshakes are pending");
  EXPECT_EQ(answer(crowd[1]), "");
}

TEST_F(SocketListenerTest, ClientsWithNonsenseCostNobodyTheirPlace) {
  const auto silent = clients(kMost);
  accept_all();
  const auto noisy = clients(20, "p");
  accept_all();
  EXPECT_EQ(listener_.handshakes(), kMost);
  for (const UniqueFd& socket : silent) EXPECT_EQ(answer(socket), "");
}

TEST_F(SocketListenerTest, ADelayedRejectionKeepsItsPlace) {
  const UniqueFd guesser = client("w");
  accept_all();
  send(guesser, "dp");
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(answer(guesser), "");
  EXPECT_EQ(listener_.handshakes(), 1U);
  EXPECT_FALSE(ready()) << "what it sends meanwhile changes nothing";
  const auto crowd = clients(kMost);
  accept_all();
  EXPECT_EQ(answer(crowd[0]), "4 too many handshakes are pending") << "the oldest of the others gives way";
  EXPECT_TRUE(ready(5s));
  accept_all();
  EXPECT_EQ(answer(guesser), "2 a wrong word");
}

TEST_F(SocketListenerTest, DelayedRejectionsInEveryPlaceKeepNewClientsInTheQueue) {
  const auto guessers = clients(kMost, "d");
  while (listener_.handshakes() < kMost) EXPECT_FALSE(listener_.accept());
  const UniqueFd eager = client("c");
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(answer(eager), "");
  EXPECT_EQ(listener_.handshakes(), kMost);
  EXPECT_FALSE(ready()) << "the client in the queue doesn't wake the listener";
  std::vector<std::string> names;
  while (names.empty() && ready(5s)) names = accept_all();
  EXPECT_THAT(names, ElementsAre("client 65"));
  EXPECT_EQ(answer(guessers[0]), "2 a wrong word");
}

TEST_F(SocketListenerTest, AFullServerRejectsClientsThatAreReady) {
  listener_.reject_all(true);
  const UniqueFd silent = client();
  const UniqueFd eager = client("c");
  EXPECT_THAT(accept_all(), ElementsAre());
  EXPECT_EQ(answer(eager), std::string("4 ") + kServerFull);
  EXPECT_EQ(answer(silent), "");
  listener_.reject_all(false);
  send(silent, "c");
  EXPECT_THAT(accept_all(), ElementsAre("client 1"));
}

TEST_F(SocketListenerTest, AnObstaclePausesNewClientsAndIsLoggedOnce) {
  const UniqueFd early = client();
  accept_all();
  script_.obstacle = "the door is stuck";
  const UniqueFd late = client("c");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(listener_.accept());
  EXPECT_FALSE(ready()) << "the client in the queue doesn't wake the listener";
  script_.obstacle = nullptr;
  EXPECT_FALSE(listener_.accept());
  EXPECT_EQ(listener_.handshakes(), 1U) << "the pause isn't over";
  script_.obstacle = "the door is stuck";
  send(early, "c");
  EXPECT_THAT(accept_all(), ElementsAre("client 1")) << "the others go on";
  ASSERT_TRUE(ready(5s));
  EXPECT_FALSE(listener_.accept());
  script_.obstacle = nullptr;
  ASSERT_TRUE(ready(5s));
  EXPECT_THAT(accept_all(), ElementsAre("client 2"));
  EXPECT_THAT(script_.log, ElementsAre("the script can't accept clients for now: the door is stuck"));
}

TEST_F(SocketListenerTest, ACallEndsAFewHandshakesOnly) {
  const auto crowd = clients(40);
  accept_all();
  for (const UniqueFd& socket : crowd) send(socket, "p");
  std::size_t left = crowd.size();
  while (left > 0) {
    ASSERT_TRUE(ready());
    EXPECT_FALSE(listener_.accept());
    EXPECT_GE(listener_.handshakes() + 8, left);
    left = listener_.handshakes();
  }
}

TEST_F(SocketListenerTest, ClientsThatSendByteByByteHoldUpNobody) {
  const auto slow = clients(40);
  const UniqueFd eager = client();
  accept_all();
  for (const UniqueFd& socket : slow) send(socket, "www");
  send(eager, "c");
  EXPECT_TRUE(listener_.accept());
}

}  // namespace
}  // namespace crossdock::transport
