// Descriptors that nobody asked for, whose closing takes as long as the client likes: the server's thread never waits
// for it.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include "shm_support.h"
#include "support/exhaust.h"
#include "transport/shm/control_socket.h"
#include "transport/shm/packets.h"
#include "transport/shm/socket.h"

namespace crossdock::transport::shm_test {
namespace {

using shm::ControlSocket;
using shm::Hello;

constexpr int kLinger = 8;  // seconds: what closing takes where somebody waits for it
constexpr auto kSoon = 4s;

/// A TCP socket whose last close() takes kLinger seconds, or until the other end has gone.
class SlowToClose {
 public:
  SlowToClose() {
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int little = 4096;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), where, size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), where, &size), 0);
    slow_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(slow_.get(), where, size), 0);
    other_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::vector<std::byte> bytes(1 << 16);
    while (::send(slow_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    EXPECT_EQ(errno, EAGAIN);
    const linger wait{.l_onoff = 1, .l_linger = kLinger};
    EXPECT_EQ(::setsockopt(slow_.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait), 0);
  }
  int get() const { return slow_.get(); }
  /// Once it is on its way to the server, whose descriptor is the last then.
  void forget() { slow_.reset(); }

 private:
  UniqueFd other_;
  UniqueFd slow_;
};

class ShmSlowClose : public ::testing::Test {
 protected:
  ~ShmSlowClose() override {
    slow_.clear();  // the other ends go, and so all can be closed
    const std::int64_t deadline = in_ms(10'000);
    while (ControlSocket::waiting_to_close() > 0 && now_ns() < deadline) std::this_thread::yield();
    EXPECT_EQ(ControlSocket::waiting_to_close(), 0U);
  }

  /// As a server's listener has it.
  void listen() { listener_ = shm_listen(path_, 10, 20, {.max_body = 0, .max_regions = 0}, log_.callback()); }
  /// As a listener for peers has it, which accepts descriptors.
  void listen_for_peers() {
    listener_ = shm_listen(path_, 0, 0, {}, log_.callback(), Serves::kPeers);
    role_ = ChannelRole::kMessages;
  }
  /// Sends a packet with `n` descriptors that are slow to close.
  void send_slow(const RawSocket& socket, ByteSpan bytes, std::size_t n = 1) { send_slow_at(socket.get(), bytes, n); }
  void send_slow_at(int socket, ByteSpan bytes, std::size_t n) {
    auto slow = std::make_unique<SlowToClose>();
    send_descriptors(socket, bytes, std::vector<int>(n, slow->get()));
    slow->forget();
    slow_.push_back(std::move(slow));
  }
  template <typename F>
  void expect_soon(F&& f) {
    const auto before = std::chrono::steady_clock::now();
    f();
    EXPECT_LT(std::chrono::steady_clock::now() - before, kSoon) << "it waited for a descriptor to be closed";
  }
  /// A handshake by hand: the server's connection, to the client `socket`.
  std::unique_ptr<Connection> admit(const RawSocket& socket) {
    socket.send(shm::encode(Hello{.max_message = 1000, .role = static_cast<std::uint32_t>(role_)}));
    auto connection = accept_one(*listener_);
    EXPECT_FALSE(socket.receive().empty());
    return connection;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "s.sock";
  Log log_;
  std::vector<std::unique_ptr<SlowToClose>> slow_;
  std::unique_ptr<Listener> listener_;
  ChannelRole role_ = ChannelRole::kBoth;  // of a client
};

TEST_F(ShmSlowClose, InAnOpening) {
  listen();
  for (const std::size_t n : {1, 2, 20}) {
    const RawSocket socket(path_);
    send_slow(socket, shm::encode(Hello{.max_message = 1000}), n);
    expect_soon([&] { EXPECT_EQ(listener_->accept(), nullptr); });
    EXPECT_EQ(listener_->handshakes(), 0U);
    Refused refused;
    ASSERT_TRUE(shm::decode(socket.receive(), &refused));
    EXPECT_EQ(refused.code, Refusal::kMalformed);
    EXPECT_TRUE(socket.receive().empty()) << "the connection has ended, although its socket isn't closed yet";
  }
  EXPECT_TRUE(log_.says("has descriptors"));
}

TEST_F(ShmSlowClose, BehindAnOpeningThatIsRefused) {
  listen();
  const RawSocket socket(path_);
  socket.send(as_bytes("no opening"));
  socket.send(as_bytes(""));
  send_slow(socket, as_bytes("more"));
  expect_soon([&] { EXPECT_EQ(listener_->accept(), nullptr); });
}

TEST_F(ShmSlowClose, InAnEmptyPacket) {
  listen();
  const RawSocket socket(path_);
  send_slow(socket, {});
  expect_soon([&] { EXPECT_EQ(listener_->accept(), nullptr); });
  EXPECT_EQ(listener_->handshakes(), 0U);
}

TEST_F(ShmSlowClose, InTheSocketsQueueWhenTheListenerGoes) {
  listen();
  const RawSocket socket(path_);
  send_slow(socket, shm::encode(Hello{.max_message = 1000}));
  expect_soon([&] { listener_.reset(); });
  EXPECT_TRUE(socket.receive().empty());
}

TEST_F(ShmSlowClose, InAControlPacket) {
  listen();
  const RawSocket socket(path_);
  auto connection = admit(socket);
  ASSERT_TRUE(connection);
  send_slow(socket, shm::encode(shm::RegionPacket{.size = 4096}), 3);
  connection->wake();  // as after its descriptor said so
  expect_soon([&] { EXPECT_THROW(connection->receive(), ProtocolError); });
  expect_soon([&] { connection.reset(); });
  EXPECT_TRUE(socket.receive().empty());
}

TEST_F(ShmSlowClose, InAControlPacketThatNobodyHasRead) {
  listen();
  const RawSocket socket(path_);
  auto connection = admit(socket);
  ASSERT_TRUE(connection);
  socket.send(std::array{std::byte{1}});
  send_slow(socket, std::array{std::byte{1}});
  expect_soon([&] { connection.reset(); });
}

TEST_F(ShmSlowClose, OfAPeerWhoseDescriptorsAreTaken) {
  listen_for_peers();
  const auto doorbell = std::vector{std::byte{shm::kDoorbell}};
  const auto region = shm::encode(shm::RegionPacket{.kind = device::RegionKind::kRecycled, .size = 4096});
  for (const auto& packet : {doorbell, region, std::vector<std::byte>()}) {
    for (const std::size_t n : {1, 2, 9, 64}) {
      const RawSocket socket(path_);
      auto connection = admit(socket);
      ASSERT_TRUE(connection);
      send_slow(socket, packet, n);
      connection->wake();
      expect_soon([&] { EXPECT_THROW(connection->receive(), Error); });
      expect_soon([&] { connection.reset(); });
      slow_.clear();  // else new clients soon wait until fewer descriptors wait to be closed
    }
  }
}

TEST_F(ShmSlowClose, OfAPeerWhenNoDescriptorsAreLeft) {
  listen_for_peers();
  const RawSocket socket(path_);
  auto connection = admit(socket);
  ASSERT_TRUE(connection);
  send_slow(socket, std::array{std::byte{shm::kDoorbell}}, 3);
  connection->wake();
  {
    testing::AllDescriptors all;
    all.free(1);
    expect_soon([&] { EXPECT_THROW(connection->receive(), ResourceError); });
  }
  expect_soon([&] { connection.reset(); });
}

TEST_F(ShmSlowClose, OfAListenerThatAPeerConnectsTo) {
  const UniqueFd listening = listening_socket(path_);
  UniqueFd server;
  const auto connect = [&](std::size_t in_answer) {
    std::exception_ptr failure;
    std::unique_ptr<Connection> connection;
    std::thread connecting([&] {
      try {
        connection = shm_connect(path_, {}, 10'000, nullptr, {.role = ChannelRole::kMessages});
      } catch (...) {
        failure = std::current_exception();
      }
    });
    server.reset(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    UniqueFd own_file;
    UniqueFd peer_file;
    const shm::RingMemory own = make_ring(shm::RingMaker::End::kServer, shm::kMinRingBytes, &own_file);
    const shm::RingMemory peer = make_ring(shm::RingMaker::End::kClient, shm::kMinRingBytes, &peer_file);
    const shm::Welcome welcome{.ring_bytes = shm::kMinRingBytes, .max_message = 1000, .max_body = 1000};
    if (in_answer > 0) {
      send_slow_at(server.get(), shm::encode(welcome), in_answer);
    } else {
      shm::send_packet(server.get(), shm::encode(welcome), std::array{own_file.get(), peer_file.get()}, "test");
    }
    expect_soon([&] { connecting.join(); });
    if (failure) std::rethrow_exception(failure);
    return connection;
  };
  EXPECT_THROW(connect(2), ProtocolError);
  EXPECT_THROW(connect(20), ProtocolError);
  auto connection = connect(0);
  ASSERT_TRUE(connection);
  send_slow_at(server.get(), std::array{std::byte{shm::kDoorbell}}, 1);
  expect_soon([&] { connection.reset(); });
}

TEST_F(ShmSlowClose, HowManyWaitIsBounded) {
  listen();
  std::vector<std::unique_ptr<RawSocket>> sockets;
  for (int i = 0; i < 100; ++i) {
    sockets.push_back(std::make_unique<RawSocket>(path_));
    send_slow(*sockets.back(), as_bytes("x"));
    expect_soon([&] { EXPECT_EQ(listener_->accept(), nullptr); });
  }
  EXPECT_GE(ControlSocket::waiting_to_close(), 32U);
  EXPECT_LE(ControlSocket::waiting_to_close(), 64U + 8);
  EXPECT_TRUE(log_.says("slow to close"));
  sockets.clear();
  slow_.clear();
  listener_.reset();
}

TEST_F(ShmSlowClose, SocketsWithAnEmptyQueueAreClosedAtOnce) {
  listen();
  const RawSocket socket(path_);
  auto connection = admit(socket);
  ASSERT_TRUE(connection);
  for (int i = 0; i < 3; ++i) socket.send(std::array{std::byte{1}});
  const int before = open_descriptors();
  connection.reset();
  EXPECT_EQ(open_descriptors(), before - 1);
  EXPECT_EQ(ControlSocket::waiting_to_close(), 0U);
}

}  // namespace
}  // namespace crossdock::transport::shm_test
