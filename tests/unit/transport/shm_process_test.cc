// Two processes: speed, death and fork.

#include <algorithm>
#include <utility>

#include <sys/resource.h>

#include "crossdock/core/error.h"
#include "device/region.h"
#include "shm_support.h"
#include "transport/shm/packets.h"
#include "transport/shm/ring_memory.h"
#include "transport/shm/socket.h"

namespace crossdock::transport::shm_test {
namespace {

class ShmProcesses : public ::testing::Test {
 protected:
  /// A child that connects, and our end of it.
  void start(const std::function<void(Connection&)>& run, const ShmOptions& options = {}) {
    listener_ = shm_listen(folder_ / "s.sock", 0, 0, options, nullptr);
    child_ = std::make_unique<Child>([&] {
      const auto client = shm_connect(folder_ / "s.sock", options, 5000, nullptr);
      run(*client);
    });
    server_ = accept_one(*listener_);
    ASSERT_TRUE(server_);
  }
  void expect_child_well() { EXPECT_EQ(child_->wait(), 0); }

  TemporaryFolder folder_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> server_;
  std::unique_ptr<Child> child_;
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kMessages = 100'000;
#else
constexpr unsigned kMessages = 1'000'000;
#endif

class ShmProcessesByWait : public ShmProcesses, public ::testing::WithParamInterface<WaitMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, ShmProcessesByWait,
                         ::testing::Values(WaitMode::kSpin, WaitMode::kBlock, WaitMode::kAuto), [](const auto& test) {
                           return test.param == WaitMode::kSpin    ? "Spin"
                                  : test.param == WaitMode::kBlock ? "Block"
                                                                   : "Auto";
                         });

TEST_P(ShmProcessesByWait, StreamsOneWay) {
  // Metadata of a batch, then the message that hands its memory over.
  start([](Connection& client) {
    const auto metadata = pattern(600);
    const auto body = pattern(144);
    const auto prefix = pattern(5);
    for (unsigned i = 0; i < kMessages / 2; ++i) {
      while (!client.send(prefix, metadata)) wait_readable(client, GetParam(), in_ms(20'000), nullptr);
      while (!client.send_tagged(i, body, {})) wait_readable(client, GetParam(), in_ms(20'000), nullptr);
    }
    require(client.in_flight() < kMessages, "in flight");
    receive_or_throw(client, GetParam());
  });
  unsigned received = 0;
  std::int64_t begin = 0;
  while (received < kMessages) {
    const auto message = server_->receive();
    if (!message) {
      ASSERT_TRUE(wait_readable(*server_, GetParam(), in_ms(20'000), nullptr));
      continue;
    }
    if (received == 0) begin = now_ns();
    ASSERT_EQ(message->bytes.size(), received % 2 == 0 ? 605U : 144U);
    ASSERT_EQ(message->tag, received % 2 == 0 ? 0 : received / 2);
    ++received;
  }
  RecordProperty("ns_per_pair", std::to_string((now_ns() - begin) / (kMessages / 2)));
  send_or_throw(*server_, as_bytes("bye"));
  expect_child_well();
}

TEST_P(ShmProcessesByWait, PingPong) {
  // Few enough for a machine on which the two ends must share a processor.
  constexpr unsigned kRounds = kMessages / 50;
  start([](Connection& client) {
    for (unsigned i = 0; i < kRounds; ++i) send_or_throw(client, receive_or_throw(client, GetParam()), GetParam());
  });
  std::vector<std::int64_t> times(kRounds);
  for (std::int64_t& time : times) {
    const auto begin = now_ns();
    ASSERT_TRUE(server_->send(as_bytes("0123456789abcdef"), {}));
    std::optional<Incoming> message;
    while (!(message = server_->receive())) {
      ASSERT_TRUE(wait_readable(*server_, GetParam(), in_ms(20'000), nullptr));
    }
    ASSERT_EQ(message->bytes.size(), 16U);
    time = now_ns() - begin;
  }
  expect_child_well();
  std::sort(times.begin(), times.end());
  RecordProperty("round_trip_ns_p50", std::to_string(times[kRounds / 2]));
  RecordProperty("round_trip_ns_p99", std::to_string(times[kRounds / 100 * 99]));
}

TEST_P(ShmProcessesByWait, AKilledPeerIsNoticed) {
  start([](Connection& client) {
    client.send(as_bytes("last words"), {});
    ::pause();
  });
  ASSERT_TRUE(wait_readable(*server_, GetParam(), in_ms(5000), nullptr));
  child_->kill();
  EXPECT_EQ(as_text(receive_or_throw(*server_, GetParam())), "last words") << "what was written stays valid";
  EXPECT_THROW(receive_or_throw(*server_, GetParam(), 5000), ConnectionError);
  EXPECT_THROW(server_->send(as_bytes("x"), {}), ConnectionError);
}

TEST_P(ShmProcessesByWait, APeerKilledWhileWeWaitIsNoticed) {
  start([](Connection&) { ::pause(); });
  // The hook is asked by who waits: the kill comes while we do, in every mode.
  bool killed = false;
  const InterruptHook kill_once = [&] {
    if (!std::exchange(killed, true)) ::kill(child_->pid(), SIGKILL);
    return false;
  };
  EXPECT_THROW(
      for (;;) {
        ASSERT_FALSE(server_->receive());
        ASSERT_TRUE(wait_readable(*server_, GetParam(), in_ms(5000), kill_once));
      },
      ConnectionError);
  EXPECT_TRUE(killed);
  EXPECT_EQ(child_->wait(), -SIGKILL);
}

TEST_F(ShmProcesses, ASenderAloneNoticesAKilledPeer) {
  start([](Connection&) { ::pause(); });
  child_->kill();
  EXPECT_THROW(
      {
        const std::int64_t deadline = in_ms(5000);
        while (now_ns() < deadline) server_->send(as_bytes("x"), {});
      },
      ConnectionError);
}

TEST_F(ShmProcesses, APeerThatNeverReadsIsAFullRing) {
  start([](Connection&) { ::pause(); });
  unsigned sent = 0;
  while (server_->send(pattern(1000), {})) ASSERT_LT(++sent, 10'000U);
  EXPECT_FALSE(wait_readable(*server_, WaitMode::kBlock, in_ms(20), nullptr));
  EXPECT_EQ(server_->in_flight(), sent);
}

TEST_F(ShmProcesses, RegionsReachAnotherProcess) {
  start([](Connection& client) {
    receive_or_throw(client);
    const auto frozen = region_of(client, 1, 5000);
    const auto recycled = region_of(client, 2, 5000);
    require(std::memcmp(frozen->data() + 64, "frozen", 6) == 0, "frozen bytes");
    require(std::memcmp(recycled->data() + 64, "recycled", 8) == 0, "recycled bytes");
    client.send(as_bytes("seen"), {});
    receive_or_throw(client);
    require(std::memcmp(recycled->data() + 64, "RECYCLED", 8) == 0, "written on");
  });
  device::RegionWriter writer("test");
  writer.append(as_bytes("frozen"));
  const auto frozen = writer.freeze();
  const auto recycled = device::Region::make_recycled(1 << 16, "test");
  std::memcpy(recycled->writable() + 64, "recycled", 8);
  ASSERT_TRUE(server_->announce(1, frozen));
  ASSERT_TRUE(server_->announce(2, recycled));
  send_or_throw(*server_, as_bytes("look"));
  receive_or_throw(*server_);
  std::memcpy(recycled->writable() + 64, "RECYCLED", 8);
  send_or_throw(*server_, as_bytes("again"));
  expect_child_well();
}

// Descriptors under way to a process that doesn't take them count against their sender's user.
TEST_F(ShmProcesses, ARegionThatTheSystemDoesNotLetPassIsANamedError) {
  Child child([] {
    const Pair pair = connected_pair();
    device::RegionWriter writer("test");
    writer.append(as_bytes("bytes"));
    const auto region = writer.freeze();
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    if (::getuid() == 0) require(::setuid(kNobody) == 0, "setuid");  // root is above that limit
    const rlimit few{20, 20};
    require(::setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
    const auto flood = [&] {
      for (int i = 0; i < 100; ++i) shm::send_packet(ends[0], as_bytes("x"), std::span(ends, 1), "test");
    };
    const auto refused = [](const auto& send) {
      try {
        send();
      } catch (const ResourceError&) {
        return true;
      }
      return false;
    };
    require(refused(flood), "the system lets any number pass");
    require(refused([&] { pair.server->announce(1, region); }), "announcing is a ResourceError");
    ::close(ends[0]);
    ::close(ends[1]);
    require(pair.server->announce(1, region).has_value(), "announced once there is room");
    require(std::memcmp(region_of(*pair.client, 1, 5000)->data() + 64, "bytes", 5) == 0, "and it is the right one");
  });
  EXPECT_EQ(child.wait(), 0);
}

// --- a client that speaks the handshake and then does what it likes ---

class HostileShmPeer : public ::testing::Test {
 protected:
  HostileShmPeer() : listener_(shm_listen(folder_ / "s.sock", 0, 0, {}, nullptr)), socket_(folder_ / "s.sock") {
    socket_.send(shm::encode(shm::Hello{.max_message = 1000}));
    server_ = accept_one(*listener_);
    shm::Packet packet;
    EXPECT_EQ(shm::receive_packet(socket_.get(), &packet, "test"), shm::Received::kPacket);
    shm::Welcome welcome;
    EXPECT_TRUE(shm::decode(packet.content(), &welcome));
    ring_file_ = std::move(packet.fds[1].unchecked());
    ring_ = shm::RingMemory::adopt_own(ring_file_, welcome.ring_bytes, "test");
  }
  /// Has the server look at its socket.
  void receive() {
    server_->wake();
    server_->receive();
  }
  TemporaryFolder folder_;
  std::unique_ptr<Listener> listener_;
  RawSocket socket_;
  UniqueFd ring_file_;  // the client's own ring
  shm::RingMemory ring_;
  std::unique_ptr<Connection> server_;
};

TEST_F(HostileShmPeer, TheSizeOfARingStaysAsTheServerMadeIt) {
  ASSERT_TRUE(server_);
  struct stat status {};
  ASSERT_EQ(::fstat(ring_file_.get(), &status), 0);
  for (const off_t size : {off_t{0}, status.st_size - 4096, status.st_size + 4096}) {
    EXPECT_EQ(::ftruncate(ring_file_.get(), size), -1) << size;
  }
  EXPECT_EQ(::fcntl(ring_file_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1) << "its seals are sealed";
}

TEST_F(HostileShmPeer, HolesInItsOwnRingAreRead) {
  ASSERT_TRUE(server_);
  struct stat status {};
  ASSERT_EQ(::fstat(ring_file_.get(), &status), 0);
  ASSERT_EQ(::fallocate(ring_file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size), 0);
  // Zeros: no message. The pages that the server reads come back, and no more than the ring has.
  EXPECT_EQ(server_->receive(), std::nullopt);
  ring_.header()->written.store(ring_.ring_bytes());
  // 65,536 frames of no bytes: each is an empty message without a tag.
  EXPECT_TRUE(server_->receive());
  ASSERT_EQ(::fstat(ring_file_.get(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, status.st_size);
}

TEST_F(HostileShmPeer, GarbageOnTheSocket) {
  ASSERT_TRUE(server_);
  socket_.send(pattern(20));
  EXPECT_THROW(receive(), ProtocolError);
  EXPECT_THROW(receive(), ProtocolError) << "and stays so";
}

TEST_F(HostileShmPeer, PacketsOfTheWrongShape) {
  const std::vector<std::vector<std::byte>> packets = {
      {std::byte{shm::kDoorbell}, std::byte{0}}, {std::byte{0}}, {std::byte{3}}, pattern(600)};
  for (const auto& packet : packets) {
    const RawSocket socket(folder_ / "s.sock");
    socket.send(shm::encode(shm::Hello{.max_message = 1000}));
    server_ = accept_one(*listener_);
    ASSERT_TRUE(server_);
    socket.send(packet);
    EXPECT_THROW(receive(), ProtocolError);
  }
}

TEST_F(HostileShmPeer, ADoorbellWithADescriptor) {
  const int before = descriptors_when_closed();
  socket_.send(std::vector{std::byte{shm::kDoorbell}}, {0});
  EXPECT_THROW(receive(), ProtocolError);
  EXPECT_EQ(descriptors_when_closed(), before);
}

TEST_F(HostileShmPeer, ARegionWithoutOrWithTooManyDescriptors) {
  socket_.send(shm::encode(shm::RegionPacket{.number = 1, .size = 4096}), {0, 0, 0});
  EXPECT_THROW(region_of(*server_, 1, 1000), ProtocolError);
}

TEST_F(HostileShmPeer, ARegionWithFortyDescriptors) {
  const int before = descriptors_when_closed();
  socket_.send(shm::encode(shm::RegionPacket{.number = 1, .size = 4096}), std::vector<int>(40, 0));
  EXPECT_THROW(region_of(*server_, 1, 1000), ProtocolError);
  EXPECT_EQ(descriptors_when_closed(), before);
}

TEST_F(HostileShmPeer, ARegionThatIsAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  socket_.send(shm::encode(shm::RegionPacket{.number = 1, .size = 4096}), {ends[0]});
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_THROW(region_of(*server_, 1, 1000), ProtocolError);
}

TEST_F(HostileShmPeer, ARegionOfAnUnknownKind) {
  socket_.send(shm::encode(shm::RegionPacket{.number = 1, .kind = static_cast<device::RegionKind>(9), .size = 4096}),
               {0});
  EXPECT_THROW(region_of(*server_, 1, 1000), ProtocolError);
}

TEST_F(HostileShmPeer, AFloodOfDoorbellsIsReadInTurns) {
  const std::vector bell{std::byte{shm::kDoorbell}};
  for (int i = 0; i < 200; ++i) socket_.send(bell);
  for (int i = 0; i < 20; ++i) receive();
  pollfd ask{server_->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&ask, 1, 0), 0);
  const auto begin = now_ns();
  for (int i = 0; i < 200; ++i) socket_.send(bell);
  EXPECT_THROW(region_of(*server_, 5, 30), ProtocolError) << "a flood doesn't keep it from its deadline";
  EXPECT_LT(now_ns() - begin, 5'000'000'000);
}

TEST_F(HostileShmPeer, CursorsOutOfRange) {
  ring_.header()->written.store(2 * ring_.ring_bytes());
  EXPECT_THROW(server_->receive(), ProtocolError);
  ring_.header()->messages_taken.store(5);
  EXPECT_THROW(server_->in_flight(), ProtocolError);
}

// --- fork ---

TEST_F(ShmProcesses, AForkedChildMayNotUseWhatItInherited) {
  start([](Connection& client) {
    for (int i = 0; i < 3; ++i) send_or_throw(client, receive_or_throw(client));
  });
  send_or_throw(*server_, as_bytes("before"));
  EXPECT_EQ(as_text(receive_or_throw(*server_)), "before");
  Child forked([this] {
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
    forbidden([&] { it.send_tagged(1, as_bytes("x"), {}); });
    forbidden([&] { it.receive(); });
    forbidden([&] { it.in_flight(); });
    forbidden([&] { it.below_window(1); });
    forbidden([&] { it.flush(); });
    forbidden([&] { region_of(it, 0, 10); });
    forbidden([&] { it.retire(0); });
    forbidden([&] { it.prepare_sleep(); });
    forbidden([&] { it.wake(); });
    forbidden([&] { it.readable(); });
    forbidden([&] { wait_readable(it, WaitMode::kSpin, in_ms(10), nullptr); });
    forbidden([&] { listener_->accept(); });
    const int before = open_descriptors();
    server_.reset();
    listener_.reset();
    require(open_descriptors() <= before - 3, "descriptors of the parent's objects are closed");
  });
  EXPECT_EQ(forked.wait(), 0);
  EXPECT_EQ(::access((folder_ / "s.sock").c_str(), F_OK), 0) << "the child didn't remove the parent's socket";
  send_or_throw(*server_, as_bytes("after"));
  EXPECT_EQ(as_text(receive_or_throw(*server_)), "after") << "the parent goes on";
  send_or_throw(*server_, as_bytes("last"));
  receive_or_throw(*server_);
  expect_child_well();
}

TEST_F(ShmProcesses, ClosingInTheParentEndsItWhileAForkedChildLives) {
  start([](Connection& client) {
    try {
      receive_or_throw(client);
    } catch (const ConnectionError&) {
      return;
    }
    throw std::runtime_error("the end wasn't seen");
  });
  const Child holder([] { ::pause(); });
  server_.reset();
  expect_child_well();
}

}  // namespace
}  // namespace crossdock::transport::shm_test
