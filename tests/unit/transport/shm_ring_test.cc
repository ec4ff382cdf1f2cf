// Two ends of a pair of rings, driven by hand, on plain memory.

#include <deque>
#include <random>

#include "shm_support.h"

namespace crossdock::transport::shm_test {
namespace {

using shm::Barrier;
using shm::kMore;
using shm::kTagged;
using shm::RingReader;
using shm::RingWriter;

constexpr std::uint64_t kBytes = 64 << 10;

class ShmRing : public ::testing::TestWithParam<bool> {
 protected:
  RingMemories memory{kBytes};
  Barrier barrier{GetParam() && [] { return shm::register_for_barriers(); }()};
  CountingOwner a_owner;
  CountingOwner b_owner;
  RingWriter writer{memory.of_a(), barrier, a_owner, "peer b"};
  RingReader reader{memory.of_b(), barrier, b_owner, limits(4 << 20), "peer a"};
};
INSTANTIATE_TEST_SUITE_P(Barriers, ShmRing, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Expedited" : "Fences"; });

TEST_P(ShmRing, CarriesHeadAndTailAsOneMessage) {
  ASSERT_TRUE(writer.send(kTagged, 77, as_bytes("head "), as_bytes("and tail")));
  EXPECT_EQ(writer.in_flight(), 1U);
  const auto message = reader.receive();
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->tagged);
  EXPECT_EQ(message->tag, 77U);
  EXPECT_EQ(as_text(message->bytes), "head and tail");
  EXPECT_EQ(writer.in_flight(), 0U);
  EXPECT_FALSE(reader.receive());
}

TEST_P(ShmRing, CarriesEmptyMessages) {
  ASSERT_TRUE(writer.send(0, 0, {}, {}));
  const auto message = reader.receive();
  ASSERT_TRUE(message);
  EXPECT_FALSE(message->tagged);
  EXPECT_TRUE(message->bytes.empty());
}

TEST_P(ShmRing, CopiesAreAlignedAndSurviveTheRing) {
  const auto bytes = pattern(1000);
  ASSERT_TRUE(writer.send(0, 0, bytes, {}));
  const auto message = reader.receive();
  ASSERT_TRUE(message);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message->bytes.data()) % 8, 0U);
  std::memset(memory.a_data.get(), 0xEE, kBytes);
  EXPECT_EQ(copy_of(message->bytes), bytes);
}

TEST_P(ShmRing, EverySizeWrapsAroundTheEnd) {
  std::mt19937 random(7);
  std::deque<std::vector<std::byte>> sent;
  std::uint64_t total = 0;
  for (unsigned i = 0; i < 20'000; ++i) {
    const std::size_t size = random() % 3000;
    auto bytes = pattern(size, i);
    const std::size_t cut = size == 0 ? 0 : random() % size;
    if (writer.send(0, 0, ByteSpan(bytes).first(cut), ByteSpan(bytes).subspan(cut))) {
      total += size;
      sent.push_back(std::move(bytes));
    }
    while (!sent.empty() && random() % 3 != 0) {
      const auto message = reader.receive();
      ASSERT_TRUE(message);
      ASSERT_EQ(copy_of(message->bytes), sent.front());
      sent.pop_front();
    }
    ASSERT_EQ(writer.in_flight(), sent.size());
  }
  EXPECT_GT(total, 100 * kBytes);
}

TEST_P(ShmRing, AFullRingRefusesAndLosesNothing) {
  const auto bytes = pattern(1000);
  unsigned accepted = 0;
  while (writer.send(0, 0, bytes, {})) ++accepted;
  EXPECT_EQ(accepted, kBytes / 1024);  // 16 + 1000, rounded up to 16
  EXPECT_TRUE(writer.wants_room());
  EXPECT_FALSE(writer.room_came());
  EXPECT_EQ(writer.in_flight(), accepted);
  ASSERT_TRUE(reader.receive());
  EXPECT_TRUE(writer.room_came());
  EXPECT_TRUE(writer.send(0, 0, bytes, {}));
  EXPECT_FALSE(writer.wants_room());
  for (unsigned i = 0; i < accepted; ++i) ASSERT_EQ(copy_of(reader.receive()->bytes), bytes);
  EXPECT_FALSE(reader.receive());
}

TEST_P(ShmRing, LargeMessagesGoInPieces) {
  const auto bytes = pattern(1 << 20);
  ASSERT_TRUE(writer.send(kTagged, 5, ByteSpan(bytes).first(100), ByteSpan(bytes).subspan(100)));
  EXPECT_TRUE(writer.pending());
  EXPECT_FALSE(writer.send(0, 0, as_bytes("later"), {})) << "must not overtake";
  EXPECT_EQ(writer.in_flight(), 1U);
  std::optional<Incoming> message;
  for (int turns = 0; !message && turns < 1000; ++turns) {
    message = reader.receive();
    if (!message) {
      EXPECT_TRUE(reader.in_message());
      writer.flush();
    }
  }
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->tagged);
  EXPECT_EQ(message->tag, 5U);
  EXPECT_EQ(copy_of(message->bytes), bytes);
  EXPECT_FALSE(writer.pending());
  EXPECT_TRUE(writer.room_came()) << "the send that was refused may work now";
  ASSERT_TRUE(writer.send(0, 0, as_bytes("later"), {}));
  EXPECT_EQ(as_text(reader.receive()->bytes), "later");
  EXPECT_EQ(writer.in_flight(), 0U);
}

TEST_P(ShmRing, SizesAroundThePieceLimit) {
  for (const std::size_t size : {kBytes / 4 - 17, kBytes / 4 - 16, kBytes / 4 - 15, kBytes / 2, kBytes, kBytes + 1}) {
    const auto bytes = pattern(size);
    ASSERT_TRUE(writer.send(0, 0, bytes, {})) << size;
    std::optional<Incoming> message;
    while (!(message = reader.receive())) writer.flush();
    ASSERT_EQ(copy_of(message->bytes), bytes) << size;
  }
}

TEST_P(ShmRing, RetirementsKeepTheirPlaceAndAreNoMessages) {
  ASSERT_TRUE(writer.send(0, 0, as_bytes("one"), {}));
  ASSERT_TRUE(writer.retire(9));
  ASSERT_TRUE(writer.send(0, 0, as_bytes("two"), {}));
  EXPECT_EQ(writer.in_flight(), 2U);
  EXPECT_EQ(as_text(reader.receive()->bytes), "one");
  EXPECT_TRUE(b_owner.retirements.empty());
  EXPECT_EQ(as_text(reader.receive()->bytes), "two");
  EXPECT_EQ(b_owner.retirements, std::vector<std::uint64_t>{9});
  EXPECT_EQ(writer.in_flight(), 0U);
}

TEST_P(ShmRing, RingsOncePerSleep) {
  memory.b.state.store(1);
  ASSERT_TRUE(writer.send(0, 0, as_bytes("x"), {}));
  ASSERT_TRUE(writer.send(0, 0, as_bytes("x"), {}));
  EXPECT_EQ(a_owner.rings, 1);
  memory.b.state.store(2);
  ASSERT_TRUE(writer.send(0, 0, as_bytes("x"), {}));
  EXPECT_EQ(a_owner.rings, 1);
  memory.b.state.store(3);
  ASSERT_TRUE(writer.send(0, 0, as_bytes("x"), {}));
  EXPECT_EQ(a_owner.rings, 2);
}

TEST_P(ShmRing, ClosedPeerEndsSending) {
  memory.b.state.store(shm::kClosedBit);
  EXPECT_THROW(writer.send(0, 0, as_bytes("x"), {}), ConnectionError);
  EXPECT_THROW(writer.send(0, 0, as_bytes("x"), {}), ConnectionError);
  EXPECT_TRUE(writer.peer_closed());
}

TEST_P(ShmRing, ARequestForRoomIsAnsweredOnceAQuarterIsFree) {
  const auto bytes = pattern(1000);
  while (writer.send(0, 0, bytes, {})) {
  }
  writer.ask_for_room();
  unsigned taken = 0;
  while (b_owner.rings == 0 && reader.receive()) ++taken;
  EXPECT_EQ(b_owner.rings, 1);
  EXPECT_EQ(taken, kBytes / 4 / 1024);
  EXPECT_TRUE(writer.room_came());
  while (reader.receive()) {
  }
  EXPECT_EQ(b_owner.rings, 1) << "one request, one answer";
}

TEST_P(ShmRing, AFailedWindowIsAnsweredAsSoonAsItOpens) {
  EXPECT_TRUE(writer.below_window(2));
  ASSERT_TRUE(writer.send(0, 0, as_bytes("a"), {}));
  EXPECT_TRUE(writer.below_window(2));
  ASSERT_TRUE(writer.send(0, 0, as_bytes("b"), {}));
  EXPECT_FALSE(writer.below_window(2));
  EXPECT_TRUE(writer.wants_room());
  writer.ask_for_room();
  EXPECT_FALSE(writer.room_came());
  ASSERT_TRUE(reader.receive());
  EXPECT_EQ(b_owner.rings, 1);
  EXPECT_TRUE(writer.room_came());
  EXPECT_TRUE(writer.below_window(2));
  EXPECT_FALSE(writer.wants_room());
}

TEST_P(ShmRing, ASenderWithoutRoomAsksForASleepingReceiver) {
  const auto bytes = pattern(1000);
  writer.set_asleep(true);
  while (writer.send(0, 0, bytes, {})) {
  }
  EXPECT_EQ(memory.a.requests.load(), 1U);
  while (reader.receive()) {
  }
  EXPECT_EQ(b_owner.rings, 1);
}

// --- a peer that breaks the rules ---

class HostileShmRing : public ::testing::Test {
 protected:
  void frame(std::uint64_t at, std::uint32_t length, std::uint32_t flags, std::uint64_t tag) {
    const shm::FrameHeader header{length, flags, tag};
    std::memcpy(memory.a_data.get() + at % kBytes, &header, sizeof header);
  }
  RingMemories memory{kBytes};
  CountingOwner owner;
  RingReader reader{memory.of_b(), Barrier(false), owner, limits(100'000), "peer a"};
  RingWriter writer{memory.of_b(), Barrier(false), owner, "peer a"};
};

TEST_F(HostileShmRing, WriteCursorsOutOfRange) {
  for (const std::uint64_t cursor :
       {kBytes + 16, ~std::uint64_t{0}, ~std::uint64_t{15}, std::uint64_t{1} << 63, std::uint64_t{8}}) {
    RingReader fresh(memory.of_b(), Barrier(false), owner, limits(1000), "peer a");
    memory.a.written.store(cursor);
    EXPECT_THROW(fresh.receive(), ProtocolError) << cursor;
  }
}

TEST_F(HostileShmRing, WriteCursorThatGoesBack) {
  frame(0, 16, 0, 0);
  memory.a.written.store(32);
  ASSERT_TRUE(reader.receive());
  memory.a.written.store(16);
  EXPECT_THROW(reader.receive(), ProtocolError);
}

TEST_F(HostileShmRing, ReadCursorsOutOfRange) {
  // The cursor is looked at once the ring looks full; one that runs ahead must not make room.
  const auto bytes = pattern(10'000);
  for (const std::uint64_t cursor : {2 * kBytes, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    RingWriter fresh(memory.of_b(), Barrier(false), owner, "peer a");
    memory.a.taken.store(cursor);
    unsigned sent = 0;
    EXPECT_THROW(for (;; ++sent) fresh.send(0, 0, bytes, {}), ProtocolError) << cursor;
    EXPECT_EQ(sent, kBytes / 10'016);
  }
}

TEST_F(HostileShmRing, ReadCursorThatGoesBack) {
  const auto bytes = pattern(10'000);
  while (writer.send(0, 0, bytes, {})) {
  }
  memory.a.taken.store(10'016);
  ASSERT_TRUE(writer.send(0, 0, pattern(9'000), {}));
  memory.a.taken.store(16);
  EXPECT_THROW(while (writer.send(0, 0, bytes, {})){}, ProtocolError);
}

TEST_F(HostileShmRing, MessageCountsOutOfRange) {
  ASSERT_TRUE(writer.send(0, 0, as_bytes("x"), {}));
  ASSERT_TRUE(writer.send(0, 0, as_bytes("y"), {}));
  memory.a.messages_taken.store(3);
  EXPECT_THROW(writer.in_flight(), ProtocolError);
  memory.a.messages_taken.store(2);
  EXPECT_EQ(writer.in_flight(), 0U);
  memory.a.messages_taken.store(1);
  EXPECT_THROW(writer.in_flight(), ProtocolError);
}

TEST_F(HostileShmRing, FrameLongerThanWhatIsThere) {
  frame(0, 17, 0, 0);
  memory.a.written.store(32);
  EXPECT_THROW(reader.receive(), ProtocolError);
}

TEST_F(HostileShmRing, FrameOfTheLargestLength) {
  frame(0, ~std::uint32_t{0}, 0, 0);
  memory.a.written.store(kBytes);
  EXPECT_THROW(reader.receive(), ProtocolError);
}

TEST_F(HostileShmRing, UnknownFlags) {
  for (const std::uint32_t flags :
       {16U, shm::kBody, kTagged | 0x80000000U, shm::kRetire | kTagged, shm::kRetire | kMore}) {
    RingReader fresh(memory.of_b(), Barrier(false), owner, limits(1000), "peer a");
    frame(0, 1, flags, 0);
    memory.a.written.store(32);
    EXPECT_THROW(fresh.receive(), ProtocolError) << flags;
  }
  EXPECT_TRUE(owner.retirements.empty());
}

TEST_F(HostileShmRing, BodiesThatLieAboutTheirLength) {
  const auto begin = [&](std::uint64_t said, std::uint32_t length, std::uint32_t flags) {
    frame(0, length, kTagged | shm::kBody | flags, 1);
    std::memcpy(memory.a_data.get() + 16, &said, sizeof said);
    memory.a.written.store(align_up(16 + length, 16));
    RingReader fresh(memory.of_b(), Barrier(false), owner, limits(1000), "peer a");
    EXPECT_THROW(fresh.receive(), ProtocolError) << said << " " << length << " " << flags;
  };
  begin(0, 4, 0);               // no length at all
  begin(1001, 24, shm::kMore);  // over the limit
  begin(~std::uint64_t{0}, 24, shm::kMore);
  begin(15, 24, 0);           // more than it said
  begin(17, 24, 0);           // less
  begin(16, 24, shm::kMore);  // all of it, and more to come
  begin(0, 8, shm::kMore);
}

TEST_F(HostileShmRing, ATagWithoutTheFlag) {
  frame(0, 0, 0, 5);
  memory.a.written.store(16);
  EXPECT_THROW(reader.receive(), ProtocolError);
}

TEST_F(HostileShmRing, ARetirementWithAPayload) {
  frame(0, 4, shm::kRetire, 1);
  memory.a.written.store(32);
  EXPECT_THROW(reader.receive(), ProtocolError);
}

TEST_F(HostileShmRing, EndlessEmptyPieces) {
  frame(0, 0, kMore, 0);
  memory.a.written.store(16);
  EXPECT_THROW(reader.receive(), ProtocolError);
}

TEST_F(HostileShmRing, AnotherMessageWithinAMessage) {
  frame(0, 16, kMore, 0);
  frame(32, 16, kTagged, 1);
  memory.a.written.store(64);
  EXPECT_THROW(reader.receive(), ProtocolError);
}

TEST_F(HostileShmRing, ARetirementWithinAMessage) {
  frame(0, 16, kMore, 0);
  frame(32, 0, shm::kRetire, 1);
  memory.a.written.store(48);
  EXPECT_THROW(reader.receive(), ProtocolError);
}

TEST_F(HostileShmRing, PiecesThatAddUpToTooMuch) {
  std::uint64_t at = 0;
  const auto more = [&] {
    for (int i = 0; i < 100; ++i) {
      frame(at, 16'000, kMore, 0);
      at += 16'016;
      memory.a.written.store(at);
      reader.receive();
    }
  };
  EXPECT_THROW(more(), ProtocolError);
  EXPECT_LE(at, 7 * 16'016U) << "refused at the limit of 100,000 bytes, not after it";
}

/// Of a peer that asks to be rung again as soon as it was.
class InsatiableOwner : public CountingOwner {
 public:
  explicit InsatiableOwner(shm::RingHeader& peer) : peer_(peer) {}
  void ring() noexcept override {
    CountingOwner::ring();
    ++peer_.requests;
  }

 private:
  shm::RingHeader& peer_;
};

TEST_F(HostileShmRing, RequestsWithoutEndAreAnsweredAFewTimesPerCall) {
  InsatiableOwner insatiable(memory.a);
  RingReader asked(memory.of_b(), Barrier(false), insatiable, limits(100'000), "peer a");
  memory.a.taken_goal = 1;
  memory.a.requests = 1;
  for (std::uint64_t at = 0; at < kBytes; at += 32) frame(at, 1, kMore, 0);
  memory.a.written = kBytes;
  EXPECT_FALSE(asked.receive());
  EXPECT_EQ(asked.taken(), kBytes);
  EXPECT_LE(insatiable.rings, 17);
  frame(0, 1, 0, 0);
  memory.a.written = kBytes + 32;
  const int before = insatiable.rings;
  EXPECT_TRUE(asked.receive());
  EXPECT_GT(insatiable.rings, before) << "and the next call answers again";
}

TEST_F(HostileShmRing, GarbageNeverReadsOutOfTheRing) {
  std::mt19937 random(3);
  const auto below = [&random](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  unsigned refused = 0;
  for (int i = 0; i < 2000; ++i) {
    RingReader fresh(memory.of_b(), Barrier(false), owner, limits(100'000), "peer a");
    for (std::uint64_t at = 0; at < kBytes; at += 16) {
      frame(at, below(below(2) == 0 ? 64 : 70'000), below(6), below(2));
    }
    memory.a.written.store(random() % (kBytes / 16 + 1) * 16);
    try {
      for (int j = 0; j < 5000 && fresh.receive(); ++j) {
      }
    } catch (const ProtocolError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000U);
}

}  // namespace
}  // namespace crossdock::transport::shm_test
