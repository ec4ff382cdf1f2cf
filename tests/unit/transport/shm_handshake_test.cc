// Handshakes with strangers: each is rejected with a message, logged and dropped, and delays no other client.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

#include "shm_support.h"
#include "transport/shm/packets.h"
#include "transport/shm/ring_memory.h"
#include "transport/shm/socket.h"

namespace crossdock::transport::shm_test {
namespace {

using shm::Hello;
using shm::RingMaker;
using shm::RingMemory;
using shm::Welcome;

/// The packet of an end that speaks another version.
std::vector<std::byte> with_version(std::vector<std::byte> packet, std::uint32_t version) {
  store_le(&packet[12], version);
  return packet;
}

class ShmHandshake : public ::testing::Test {
 protected:
  void listen(const ShmOptions& options = {}) { listener_ = shm_listen(path_, 10, 20, options, log_.callback()); }
  /// Sends an opening to the listener and returns the refusal that comes back.
  Refused refusal_of(ByteSpan opening, const std::vector<int>& descriptors) {
    RawSocket socket(path_);
    socket.send(opening, descriptors);
    EXPECT_EQ(listener_->accept(), nullptr);
    const auto answer = socket.receive();
    std::uint32_t version = 0;
    EXPECT_EQ(shm::opening_of(answer, &version), shm::Opening::kRefused);
    EXPECT_EQ(version, shm::kProtocolVersion);
    Refused refused;
    EXPECT_TRUE(shm::decode(answer, &refused));
    EXPECT_TRUE(socket.receive().empty()) << "and the socket is closed";
    EXPECT_TRUE(log_.says(refused.reason)) << refused.reason;
    EXPECT_EQ(listener_->handshakes(), 0U);
    return refused;
  }
  /// Whether the listener says that accept() has something to do.
  bool ready() const {
    pollfd ask{listener_->descriptor(), POLLIN, 0};
    return ::poll(&ask, 1, 0) > 0;
  }
  /// The listener refuses the client for want of resources while the process can open no descriptor.
  void refuses_without_descriptors(const RawSocket& socket) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::dup(0);
    ::close(next);
    const rlimit tight{static_cast<rlim_t>(next), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    EXPECT_EQ(listener_->accept(), nullptr);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    Refused refused;
    ASSERT_TRUE(shm::decode(socket.receive(), &refused));
    EXPECT_EQ(refused.code, Refusal::kResources);
  }
  void expect_still_serving() {
    std::unique_ptr<Connection> client;
    std::thread connecting([&] { client = shm_connect(path_, {}, 5000, nullptr); });
    EXPECT_TRUE(accept_one(*listener_));
    connecting.join();
    EXPECT_TRUE(client);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "s.sock";
  Log log_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ShmHandshake, GarbageIsRefused) {
  listen();
  EXPECT_EQ(refusal_of(as_bytes("GET / HTTP/1.1\r\n\r\n"), {}).code, Refusal::kMalformed);
  EXPECT_EQ(refusal_of(pattern(511), {}).code, Refusal::kMalformed);
  EXPECT_EQ(refusal_of(pattern(5000), {}).code, Refusal::kMalformed);
  EXPECT_EQ(refusal_of(as_bytes("x"), {}).code, Refusal::kMalformed);
  expect_still_serving();
}

TEST_F(ShmHandshake, AnotherMagicOrTypeIsRefused) {
  listen();
  auto opening = shm::encode(Hello{.max_message = 1});
  opening[0] = std::byte{'Y'};
  EXPECT_EQ(refusal_of(opening, {}).code, Refusal::kMalformed);
  EXPECT_EQ(refusal_of(shm::encode(Welcome{}), {}).code, Refusal::kMalformed);
}

TEST_F(ShmHandshake, AnotherVersionIsToldBothVersions) {
  listen();
  const Refused refused = refusal_of(with_version(shm::encode(Hello{.max_message = 1}), 7), {});
  EXPECT_EQ(refused.code, Refusal::kOtherVersion);
  EXPECT_NE(refused.reason.find("version 7"), std::string::npos);
  EXPECT_NE(refused.reason.find("version 2"), std::string::npos);
}

TEST_F(ShmHandshake, AShortOpeningIsRefused) {
  listen();
  const auto opening = shm::encode(Hello{.max_message = 1});
  EXPECT_EQ(refusal_of(ByteSpan(opening).first(39), {}).code, Refusal::kMalformed);
}

TEST_F(ShmHandshake, AnOpeningWithDescriptorsIsRefused) {
  listen();
  const auto opening = shm::encode(Hello{.max_message = 1});
  UniqueFd ring;
  const RingMemory memory = make_ring(RingMaker::End::kServer, 65536, &ring);
  const int before = open_descriptors();
  for (const std::size_t n : {1, 2, 3, 20}) {
    EXPECT_EQ(refusal_of(opening, std::vector<int>(n, ring.get())).code, Refusal::kMalformed) << n;
  }
  const std::int64_t deadline = in_ms(10'000);
  while (open_descriptors() != before && now_ns() < deadline) std::this_thread::yield();
  EXPECT_EQ(open_descriptors(), before) << "a thread closes them";
  expect_still_serving();
}

TEST_F(ShmHandshake, TheServerMakesBothRings) {
  listen({.ring_bytes = 128 << 10});
  const RawSocket socket(path_);
  socket.send(shm::encode(Hello{.max_message = 1}));
  const auto server = accept_one(*listener_);
  ASSERT_TRUE(server);
  shm::Packet packet;
  ASSERT_EQ(shm::receive_packet(socket.get(), &packet, "test"), shm::Received::kPacket);
  Welcome welcome;
  ASSERT_TRUE(shm::decode(packet.content(), &welcome));
  EXPECT_EQ(welcome.ring_bytes, 128U << 10);
  ASSERT_EQ(packet.descriptors, 2);
  const std::size_t size = sizeof(shm::RingHeader) + welcome.ring_bytes;
  for (const shm::PassedFd& file : packet.fds) {
    struct stat status {};
    ASSERT_EQ(::fstat(file.get(), &status), 0);
    EXPECT_EQ(static_cast<std::size_t>(status.st_size), size);
    EXPECT_GE(static_cast<std::size_t>(status.st_blocks) * 512, size) << "all of it allocated";
  }
  constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  constexpr int kAll = kSize | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;  // kernels may add others
  EXPECT_EQ(::fcntl(packet.fds[0].get(), F_GET_SEALS) & kAll, kSize | F_SEAL_FUTURE_WRITE);
  EXPECT_EQ(::fcntl(packet.fds[1].get(), F_GET_SEALS) & kAll, kSize);
  const auto writable = [&](const shm::PassedFd& file) {
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at != MAP_FAILED) ::munmap(at, size);
    return at != MAP_FAILED;
  };
  EXPECT_FALSE(writable(packet.fds[0])) << "the server's ring is the server's to write";
  EXPECT_TRUE(writable(packet.fds[1]));
}

TEST(ShmRingMemory, AFileSizeLimitIsAnErrorAndNoSignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{shm::kMinRingBytes, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  UniqueFd ring;
  EXPECT_THROW(make_ring(RingMaker::End::kServer, shm::kMinRingBytes, &ring), ResourceError);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(ring);
}

TEST_F(ShmHandshake, WithoutDescriptorsClientsAreTurnedAway) {
  listen();
  const RawSocket socket(path_);
  refuses_without_descriptors(socket);
  EXPECT_TRUE(log_.says("out of descriptors"));
  expect_still_serving();
}

TEST_F(ShmHandshake, ASilentClientHoldsUpNobodyAndIsDropped) {
  listen({.handshake_timeout = std::chrono::milliseconds(500)});
  const RawSocket silent(path_);
  EXPECT_EQ(listener_->accept(), nullptr);
  EXPECT_EQ(listener_->handshakes(), 1U);
  expect_still_serving();
  const std::int64_t deadline = in_ms(5000);
  while (listener_->handshakes() > 0 && now_ns() < deadline) {
    EXPECT_EQ(listener_->accept(), nullptr);
    std::this_thread::yield();
  }
  EXPECT_EQ(listener_->handshakes(), 0U);
  EXPECT_TRUE(log_.says("no handshake arrived within 0.5 s"));
}

TEST_F(ShmHandshake, ACrowdOfSilentClientsIsBounded) {
  listen();
  std::vector<std::unique_ptr<RawSocket>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(std::make_unique<RawSocket>(path_));
    EXPECT_EQ(listener_->accept(), nullptr);
  }
  EXPECT_EQ(listener_->handshakes(), 64U);
  expect_still_serving();
}

TEST_F(ShmHandshake, ACrowdThatHasSaidWhatItMustComesInWhole) {
  listen();
  constexpr int kCrowd = 100;  // more than may be shaking hands at once
  std::vector<std::unique_ptr<RawSocket>> crowd;
  for (int i = 0; i < kCrowd; ++i) {
    crowd.push_back(std::make_unique<RawSocket>(path_));
    crowd.back()->send(shm::encode(Hello{.max_message = 1000}));
  }
  std::vector<std::unique_ptr<Connection>> connections;
  while (connections.size() < kCrowd) {
    connections.push_back(accept_one(*listener_));
    ASSERT_TRUE(connections.back());
  }
}

/// Of this thread, in ns.
std::int64_t thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

TEST_F(ShmHandshake, MakingRingsIsSpreadOverManyCalls) {
  listen({.ring_bytes = 16 << 20});
  const RawSocket socket(path_);
  socket.send(shm::encode(Hello{.max_message = 1000}));
  std::int64_t longest = 0;
  std::int64_t total = 0;
  std::unique_ptr<Connection> connection;
  for (int calls = 0; !connection && calls < 1000; ++calls) {
    pollfd ask{listener_->descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&ask, 1, 5000), 1) << "it says that there is more to do";
    const std::int64_t before = thread_time();
    connection = listener_->accept();
    const std::int64_t took = thread_time() - before;
    longest = std::max(longest, took);
    total += took;
  }
  ASSERT_TRUE(connection);
  EXPECT_LT(longest, total / 8) << "one call does much of the work";
  pollfd ask{listener_->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&ask, 1, 0), 0) << "there is nothing more to do";
}

TEST_F(ShmHandshake, WhoLeavesWhileItsRingsAreMadeLeavesThemToTheNext) {
  listen();
  const auto calls_until_connected = [&] {
    int calls = 1;
    while (!listener_->accept()) ++calls;
    return calls;
  };
  const RawSocket first(path_);
  first.send(shm::encode(Hello{.max_message = 1000}));
  const int all = calls_until_connected();
  ASSERT_GT(all, 15);

  std::optional<RawSocket> leaves(path_);
  leaves->send(shm::encode(Hello{.max_message = 1000}));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(listener_->accept(), nullptr);
  const RawSocket next(path_);
  next.send(shm::encode(Hello{.max_message = 1000}));
  ASSERT_EQ(listener_->accept(), nullptr);
  leaves.reset();
  const int rest = calls_until_connected();
  EXPECT_TRUE(log_.says("disconnected during its handshake"));
  EXPECT_LT(rest, all - 5) << "what was made is made";
}

TEST_F(ShmHandshake, NoRingsAreKeptForNobody) {
  listen();
  const auto come_and_go = [&](int calls) {
    {
      const RawSocket leaves(path_);
      leaves.send(shm::encode(Hello{.max_message = 1000}));
      for (int i = 0; i < calls; ++i) EXPECT_EQ(listener_->accept(), nullptr);
    }
    while (ready()) EXPECT_EQ(listener_->accept(), nullptr);
  };
  come_and_go(1);
  const int before = open_descriptors();
  come_and_go(5);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ShmHandshake, WithoutDescriptorsForRingsClientsAreRefusedByName) {
  listen();
  const RawSocket socket(path_);
  EXPECT_EQ(listener_->accept(), nullptr);
  socket.send(shm::encode(Hello{.max_message = 1000}));
  refuses_without_descriptors(socket);
  EXPECT_EQ(listener_->handshakes(), 0U);
  expect_still_serving();
}

TEST_F(ShmHandshake, AClientThatLeavesIsForgotten) {
  listen();
  { const RawSocket leaves(path_); }
  EXPECT_EQ(listener_->accept(), nullptr);
  EXPECT_EQ(listener_->handshakes(), 0U);
  expect_still_serving();
}

// --- the client's side: a listening socket that we drive by hand ---

class ShmConnect : public ::testing::Test {
 protected:
  /// Connects, with a server that answers with `answer` and descriptors.
  std::string error_of(const std::vector<std::byte>& answer, const std::vector<int>& fds, ErrorCode expected) {
    std::thread serving([&] {
      const UniqueFd socket(::accept4(server_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::byte bytes[512];
      EXPECT_GT(::recv(socket.get(), bytes, sizeof bytes, 0), 0);
      if (answer.empty()) return;
      EXPECT_EQ(shm::send_packet(socket.get(), answer, fds, "test"), shm::Sent::kSent);
    });
    std::string what;
    try {
      shm_connect(path_, {}, 5000, nullptr);
      ADD_FAILURE() << "connected";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), expected) << error.what();
      what = error.what();
    }
    serving.join();
    return what;
  }
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "s.sock";
  const UniqueFd server_ = listening_socket(path_);
};

TEST_F(ShmConnect, SomethingElseListens) {
  EXPECT_NE(error_of(pattern(40), {}, ErrorCode::kHandshake).find("not a Crossdock server"), std::string::npos);
  error_of({}, {}, ErrorCode::kHandshake);
  error_of(shm::encode(Hello{}), {}, ErrorCode::kHandshake);
  error_of(pattern(600), {}, ErrorCode::kHandshake);
}

TEST_F(ShmConnect, AnotherVersionSaysBoth) {
  const std::string what = error_of(with_version(shm::encode(Welcome{}), 3), {}, ErrorCode::kHandshake);
  EXPECT_NE(what.find("version 3"), std::string::npos) << what;
  EXPECT_NE(what.find("version 2"), std::string::npos) << what;
}

TEST_F(ShmConnect, ARefusalCarriesTheServersWords) {
  const auto refuse = [this](Refusal code, ErrorCode expected) {
    return error_of(with_version(shm::encode(Refused{code, "so it is\n"}), 9), {}, expected);
  };
  EXPECT_NE(refuse(Refusal::kNotAllowed, ErrorCode::kPermission).find("so it is\\n"), std::string::npos);
  EXPECT_NE(refuse(Refusal::kOtherVersion, ErrorCode::kHandshake).find("version 9"), std::string::npos);
  refuse(Refusal::kMalformed, ErrorCode::kHandshake);
  refuse(Refusal::kResources, ErrorCode::kConnection);
  refuse(static_cast<Refusal>(99), ErrorCode::kHandshake);
}

TEST_F(ShmConnect, AWelcomeMustBringTwoRings) {
  const auto bytes = shm::encode(Welcome{.ring_bytes = shm::kMinRingBytes, .max_message = 1});
  UniqueFd ring;
  const RingMemory memory = make_ring(RingMaker::End::kServer, shm::kMinRingBytes, &ring);
  error_of(bytes, {}, ErrorCode::kProtocol);
  error_of(bytes, {ring.get()}, ErrorCode::kProtocol);
  error_of({bytes.begin(), bytes.end() - 1}, {}, ErrorCode::kHandshake);
}

// Either ring may be the wrong one.
TEST_F(ShmConnect, RingsThatCannotBeTrustedAreRefused) {
  constexpr std::size_t kSize = sizeof(shm::RingHeader) + shm::kMinRingBytes;
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const auto expect = [&](std::uint64_t ring_bytes, int server, int client, const std::string& words) {
    const auto welcome = shm::encode(Welcome{.ring_bytes = ring_bytes, .max_message = 1});
    const std::string what = error_of(welcome, {server, client}, ErrorCode::kProtocol);
    EXPECT_NE(what.find(words), std::string::npos) << what;
  };
  UniqueFd own;
  UniqueFd peers;
  const RingMemory memory = make_ring(RingMaker::End::kServer, shm::kMinRingBytes, &own);
  const RingMemory for_client = make_ring(RingMaker::End::kClient, shm::kMinRingBytes, &peers);
  const auto file = [&](int seals, bool backed) {
    UniqueFd made(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(backed ? ::posix_fallocate(made.get(), 0, kSize) : ::ftruncate(made.get(), kSize), 0);
    EXPECT_EQ(::fcntl(made.get(), F_ADD_SEALS, seals), 0);
    return made;
  };
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  const UniqueFd ordinary(::open((folder_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(ordinary.get(), kSize), 0);
  const UniqueFd unsealed = file(0, true);
  const UniqueFd growing = file(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL, true);
  const UniqueFd open_seals = file(F_SEAL_SHRINK | F_SEAL_GROW, true);
  const UniqueFd sparse = file(kSeals, false);
  expect(shm::kMinRingBytes, own.get(), reading.get(), "pipe");
  expect(shm::kMinRingBytes, reading.get(), peers.get(), "pipe");
  expect(shm::kMinRingBytes, own.get(), ordinary.get(), "memfd");
  expect(shm::kMinRingBytes, own.get(), unsealed.get(), "sealed against shrinking");
  expect(shm::kMinRingBytes, growing.get(), peers.get(), "sealed against growing");
  expect(shm::kMinRingBytes, own.get(), open_seals.get(), "its seals can still be changed");
  expect(shm::kMinRingBytes, own.get(), sparse.get(), "holes");
  expect(shm::kMinRingBytes, peers.get(), peers.get(), "sealed against new writers");
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{65535}, ~std::uint64_t{0}, std::uint64_t{1} << 40}) {
    expect(size, own.get(), peers.get(), "its announced size is");
  }
  expect(2 * shm::kMinRingBytes, own.get(), peers.get(), "were announced");
  // The client can't write in a ring that is sealed against it.
  error_of(shm::encode(Welcome{.ring_bytes = shm::kMinRingBytes, .max_message = 1}), {own.get(), own.get()},
           ErrorCode::kResource);
}

TEST_F(ShmConnect, RingsCutOffInPassingAreSaid) {
  UniqueFd own;
  UniqueFd peers;
  const RingMemory memory = make_ring(RingMaker::End::kServer, shm::kMinRingBytes, &own);
  const RingMemory for_client = make_ring(RingMaker::End::kClient, shm::kMinRingBytes, &peers);
  std::thread serving([&] {
    const UniqueFd socket(::accept4(server_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::byte bytes[512];
    EXPECT_GT(::recv(socket.get(), bytes, sizeof bytes, 0), 0);
    const auto welcome = shm::encode(Welcome{.ring_bytes = shm::kMinRingBytes, .max_message = 1});
    // Room for one of the two.
    rlimit before{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::dup(0);
    ::close(next);
    const rlimit tight{static_cast<rlim_t>(next) + 1, before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    EXPECT_EQ(shm::send_packet(socket.get(), welcome, std::array{own.get(), peers.get()}, "test"), shm::Sent::kSent);
    EXPECT_LE(::recv(socket.get(), bytes, sizeof bytes, 0), 0) << "until the client has gone";
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  });
  try {
    shm_connect(path_, {}, 5000, nullptr);
    ADD_FAILURE() << "connected";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("lost on the way"), std::string::npos) << error.what();
  }
  serving.join();
}

TEST_F(ShmConnect, ASilentServerIsATimeout) {
  const auto begin = now_ns();
  EXPECT_THROW(shm_connect(path_, {}, 60, nullptr), TimeoutError);
  EXPECT_GE(now_ns() - begin, 55'000'000);
}

TEST_F(ShmConnect, TheHookInterrupts) {
  int asked = 0;
  EXPECT_THROW(shm_connect(path_, {}, -1, [&] { return ++asked == 3; }), InterruptedError);
}

TEST_F(ShmConnect, AFullQueueIsWaitedForInSlices) {
  std::vector<UniqueFd> waiting;
  int asked = 0;
  EXPECT_THROW(
      {
        // More clients than the queue of 5 takes; each gives up after its opening.
        for (int i = 0; i < 20; ++i) shm_connect(path_, {}, 30, [&] { return ++asked > 1000; });
      },
      TimeoutError);
  EXPECT_THROW(
      {
        for (int i = 0; i < 20; ++i) {
          UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
          sockaddr_un address{};
          address.sun_family = AF_UNIX;
          std::memcpy(address.sun_path, path_.data(), path_.size());
          if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) break;
          waiting.push_back(std::move(socket));
        }
        shm_connect(path_, {}, 250, nullptr);
      },
      TimeoutError);
}

TEST(ShmOptionsTest, OptionsThatCannotWorkAreRefused) {
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{1} << 15, std::uint64_t{100'000}, std::uint64_t{1} << 31}) {
    EXPECT_THROW(shm_listen("", 0, 0, {.ring_bytes = bytes}, nullptr), InvalidArgumentError) << bytes;
    EXPECT_THROW(shm_connect("/x", {.ring_bytes = bytes}, 0, nullptr), InvalidArgumentError) << bytes;
  }
  EXPECT_THROW(shm_listen("", 0, 0, {.max_message = 0}, nullptr), InvalidArgumentError);
  EXPECT_THROW(shm_listen("", 0, 0, {.max_request = 0}, nullptr), InvalidArgumentError);
  EXPECT_THROW(shm_listen("", 0, 0, {.handshake_timeout = std::chrono::milliseconds(0)}, nullptr),
               InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::transport::shm_test
