// Bodies: how they are divided into messages of libfabric, and that they come out whole.
#include <fcntl.h>
#include <unistd.h>

#include <numeric>

#include "device/region.h"
#include "support.h"
#include "support/temporary_folder.h"
#include "transport/fabric/outgoing_body.h"

namespace crossdock::transport::fabric_test {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kMost = UINT64_MAX;
constexpr std::size_t kLarge = 100'000;

/// Parts that don't follow each other in memory.
struct Scattered {
  explicit Scattered(const std::vector<std::size_t>& sizes) {
    for (const std::size_t size : sizes) add(size);
  }
  void add(std::size_t size) {
    memory.push_back(pattern(size, static_cast<unsigned>(memory.size())));
    parts.emplace_back(memory.back());
    whole.insert(whole.end(), memory.back().begin(), memory.back().end());
  }
  OutgoingBody body(std::uint64_t max_message = kMost) const { return {parts, whole.size(), 5, max_message, nullptr}; }
  std::deque<Bytes> memory;
  std::vector<ByteSpan> parts;
  Bytes whole;
};

TEST(FabricBody, TakesFourPartsInAMessage) {
  EXPECT_THAT(Scattered({kLarge, kLarge, kLarge, kLarge}).body().announcement().lengths, ElementsAre(4 * kLarge));
  EXPECT_THAT(Scattered({kLarge, kLarge, kLarge, kLarge, kLarge}).body().announcement().lengths,
              ElementsAre(4 * kLarge, kLarge));
}

TEST(FabricBody, JoinsSmallParts) {
  EXPECT_THAT(Scattered({kLarge, 8, 0, 8, kLarge, 8, kLarge}).body().announcement().lengths,
              ElementsAre(2 * kLarge + 24, kLarge));
  EXPECT_EQ(Scattered({8, 8, 8, 8, 8, 8, kLarge}).body().messages(), 1u);
}

TEST(FabricBody, TakesPartsThatFollowEachOtherAsOne) {
  const Bytes memory = pattern(9 * kLarge);
  std::vector<ByteSpan> parts;
  for (std::size_t i = 0; i < 9; ++i) parts.push_back(ByteSpan(memory).subspan(i * kLarge, kLarge));
  EXPECT_THAT(OutgoingBody(parts, memory.size(), 5, kMost, nullptr).announcement().lengths, ElementsAre(9 * kLarge));
}

TEST(FabricBody, ObeysTheProvidersLimit) {
  EXPECT_THAT(Scattered({250, 100}).body(100).announcement().lengths, ElementsAre(100, 100, 100, 50));
  EXPECT_THAT(Scattered({kLarge, kLarge}).body(kLarge + 1).announcement().lengths, ElementsAre(kLarge + 1, kLarge - 1));
}

TEST(FabricBody, OfVeryManyPartsHasAnAnnouncementThatFits) {
  Scattered parts({});
  constexpr std::size_t kParts = 10'000;
  for (std::size_t i = 0; i < kParts; ++i) parts.add(17'000);
  const auto announcement = parts.body().announcement();
  EXPECT_LE(encode(announcement).size(), net::kMaxAnnouncement);
  EXPECT_EQ(std::accumulate(announcement.lengths.begin(), announcement.lengths.end(), std::uint64_t{0}),
            parts.whole.size());
}

class FabricBodies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!find_fabric().found) GTEST_SKIP() << "no libfabric, or no provider";
  }
};

TEST_F(FabricBodies, OfAllShapesCross) {
  const Pair ends;
  for (const auto& sizes : std::vector<std::vector<std::size_t>>{{1},
                                                                 {16 << 10},
                                                                 {(16 << 10) + 1},
                                                                 {kLarge, 1, kLarge, 3, kLarge, 0, kLarge},
                                                                 {3 << 20, 8, 5 << 20, kLarge, kLarge, 1},
                                                                 {20'000, 20'000, 20'000, 20'000, 20'000}}) {
    const Scattered parts(sizes);
    send_body(*ends.server, *ends.client, 9, parts.parts, nullptr);
    const std::future<void> pushing = std::async(std::launch::async, [&] {
      while (!ends.server->flush()) wait_readable(*ends.server, WaitMode::kBlock, in_ns(in_patience()), nullptr);
    });
    const Incoming got = receive(*ends.client);
    EXPECT_EQ(got.tag, 9u);
    EXPECT_TRUE(got.owner);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.bytes.data()) % 64, 0u);
    EXPECT_TRUE(std::ranges::equal(got.bytes, parts.whole)) << parts.whole.size();
  }
}

TEST_F(FabricBodies, KeepTheOrderOfTheMessagesAroundThem) {
  const Pair ends;
  const Bytes body = pattern(3 << 20);
  const Bytes large = pattern(1 << 20, 5);
  std::future<void> sending = std::async(std::launch::async, [&] {
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto put = [&](auto send) {
        while (!send()) {
          ends.server->receive();
          wait_readable(*ends.server, WaitMode::kBlock, in_ns(in_patience()), nullptr);
        }
      };
      put([&] { return ends.server->send(pattern(i + 1, 1), {}); });
      put([&] { return ends.server->send_body(i, std::array{ByteSpan(body)}, nullptr); });
      put([&] { return ends.server->send_tagged(1000 + i, large, pattern(i)); });
    }
    while (!ends.server->below_window(1)) {
      ends.server->receive();
      wait_readable(*ends.server, WaitMode::kBlock, in_ns(in_patience()), nullptr);
    }
  });
  for (std::uint64_t i = 0; i < 20; ++i) {
    Incoming got = receive(*ends.client);
    EXPECT_FALSE(got.tagged);
    EXPECT_TRUE(std::ranges::equal(got.bytes, pattern(i + 1, 1)));
    got = receive(*ends.client);
    EXPECT_EQ(got.tag, i);
    EXPECT_TRUE(std::ranges::equal(got.bytes, body));
    got = receive(*ends.client);
    EXPECT_EQ(got.tag, 1000 + i);
    EXPECT_EQ(got.bytes.size(), large.size() + i);
    EXPECT_TRUE(std::ranges::equal(got.bytes.first(large.size()), large));
  }
  ends.client->receive();  // acknowledges the last
  sending.get();
}

TEST_F(FabricBodies, AreKeptUntilThePeerHasThem) {
  const Pair ends;
  auto body = std::make_shared<const Bytes>(pattern(1 << 20));
  const std::weak_ptr<const Bytes> watched = body;
  const std::vector<ByteSpan> parts = {*body};
  send_body(*ends.server, *ends.client, 1, parts, std::move(body));
  EXPECT_FALSE(ends.server->flush());
  EXPECT_FALSE(watched.expired());
  const auto deadline = in_patience();
  while (!ends.client->receive() && Clock::now() < deadline) ends.server->flush();
  while (!ends.server->flush() && Clock::now() < deadline) ends.client->receive();
  EXPECT_TRUE(watched.expired());
  EXPECT_GE(ends.server->pushed(), 1u << 20);
}

TEST_F(FabricBodies, DroppedHalfReceivedLeaveNothingBehind) {
  for (int i = 0; i < 5; ++i) {
    Pair ends;
    auto body = std::make_shared<const Bytes>(pattern(32 << 20));
    const std::weak_ptr<const Bytes> watched = body;
    const std::vector<ByteSpan> parts = {*body};
    send_body(*ends.server, *ends.client, 1, parts, std::move(body));
    for (int turn = 0; turn < i; ++turn) {
      EXPECT_FALSE(ends.client->receive());
      ends.server->flush();
    }
    if (i % 2 == 0) {
      ends.client.reset();
      EXPECT_THROW(receive(*ends.server), ConnectionError);
    } else {
      ends.server.reset();
      EXPECT_THROW(receive(*ends.client), ConnectionError);
    }
    EXPECT_TRUE(watched.expired()) << "the endpoint is closed";
  }
}

TEST_F(FabricBodies, OfAFileThatShrinksAreAnErrorAndNoSignal) {
  const Pair ends;
  const testing::TemporaryFolder folder;
  const std::string path = folder / "file";
  {
    const UniqueFd file(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    const Bytes bytes = pattern(1 << 20);
    ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  const auto region = device::Region::open_file(path);
  const std::array<ByteSpan, 1> parts = {ByteSpan(region->data(), region->size())};
  ASSERT_TRUE(ends.server->send_body(1, parts, region));
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  EXPECT_THROW(ends.server->send_body(2, parts, region), FileChangedError);
  EXPECT_TRUE(ends.server->ways_of(*region).empty()) << "files go as sealed copies";
  const auto deadline = in_patience();
  std::optional<Incoming> got;
  while (!(got = ends.client->receive()) && Clock::now() < deadline) ends.server->flush();
  ASSERT_TRUE(got);
  EXPECT_TRUE(std::ranges::equal(got->bytes, pattern(1 << 20))) << "the first one was copied before";
}

}  // namespace
}  // namespace crossdock::transport::fabric_test
