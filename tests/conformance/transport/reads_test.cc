#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "crossdock/core/error.h"
#include "suite.h"

namespace crossdock::transport::conformance {
namespace {

constexpr std::size_t kBytes = 1 << 16;

/// A frozen region of numbers, and where it was announced.
struct Announced {
  std::vector<std::byte> content;
  std::shared_ptr<const device::Region> region;
  std::uint64_t base = 0;  ///< Of `content`.
};

/// Memory to read into, which tells when the connection has dropped it.
struct Target {
  explicit Target(std::size_t size) : bytes(std::make_shared<std::vector<std::byte>>(size)), watched(bytes) {}
  std::shared_ptr<std::vector<std::byte>> bytes;
  std::weak_ptr<const void> watched;
};

/// Announces a region, of which `to` then knows. Returns the address of its first byte.
std::uint64_t announce(Connection& from, Connection& to, std::uint16_t number,
                       const std::shared_ptr<const device::Region>& region) {
  const auto base = from.announce(number, region);
  if (!base) throw std::runtime_error("there was no room for an announcement");
  // A body that names it, as bodies do.
  if (!from.send_tagged(1, {}, {})) throw std::runtime_error("there was no room for a message");
  while (!to.receive()) wait_readable(to, WaitMode::kAuto, 0, {});
  to.peer_region(*base, kPatienceMs);
  return *base;
}

Announced announce(Connection& from, Connection& to, std::uint16_t number, std::vector<std::byte> content) {
  Announced out;
  device::RegionWriter writer("conformance");
  const std::uint64_t offset = writer.append(content);
  out.content = std::move(content);
  out.region = writer.freeze();
  out.base = announce(from, to, number, out.region) + offset;
  return out;
}

/// Receives until the reading is done, sleeping properly. Where reads aren't one-sided, the peer does its part.
void finish(Reading& reading, Connection& end, Connection& peer) {
  while (!reading.done()) {
    end.receive();
    peer.receive();
    const bool sleeps = !reading.done() && end.prepare_sleep() && peer.prepare_sleep();
    std::array<pollfd, 2> ask{{{end.descriptor(), POLLIN, 0}, {peer.descriptor(), POLLIN, 0}}};
    if (sleeps && ::poll(ask.data(), ask.size(), kPatienceMs) == 0) throw std::runtime_error("a read has stopped");
    end.wake();
    peer.wake();
  }
}

TEST_P(TransportConformance, ReadsGetTheBytesOfARegion) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced sent = announce(*server_, *client_, 1, pattern(kBytes, 1));
  Target target(kBytes);
  const ReadPart part{sent.base, kBytes, target.bytes->data()};
  const auto reading = client_->read({&part, 1}, target.bytes);
  ASSERT_NE(reading, nullptr);
  finish(*reading, *client_, *server_);
  EXPECT_EQ(*target.bytes, sent.content);
  target.bytes.reset();
  EXPECT_TRUE(target.watched.expired()) << "nobody writes there any more";
}

TEST_P(TransportConformance, AnEndKnowsThatLongReadsAreOnTheirWay) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced sent = announce(*server_, *client_, 1, pattern(Connection::kBulk, 1));
  Target target(Connection::kBulk);
  const std::array<ReadPart, 2> parts{
      {{sent.base, Connection::kBulk / 2, target.bytes->data()},
       {sent.base + Connection::kBulk / 2, Connection::kBulk / 2, target.bytes->data() + Connection::kBulk / 2}}};
  const auto small = client_->read(std::span(parts).first(1), target.bytes);
  EXPECT_FALSE(client_->in_bulk());
  finish(*small, *client_, *server_);
  const auto both = client_->read(parts, target.bytes);
  EXPECT_EQ(client_->in_bulk(), GetParam().network);
  finish(*both, *client_, *server_);
  EXPECT_FALSE(client_->in_bulk());
}

TEST_P(TransportConformance, ReadsSeveralAtOnceAndOfSeveralParts) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced first = announce(*server_, *client_, 1, pattern(kBytes, 1));
  const Announced second = announce(*server_, *client_, 2, pattern(kBytes, 2));
  std::vector<Target> targets;
  std::vector<std::unique_ptr<Reading>> readings;
  for (std::size_t i = 0; i < 8; ++i) {
    Target& target = targets.emplace_back(3000);
    const std::vector<ReadPart> parts = {{first.base + 64 * i, 1000, target.bytes->data()},
                                         {second.base + kBytes - 1000, 1000, target.bytes->data() + 1000},
                                         {first.base + 10'000 + i, 1000, target.bytes->data() + 2000}};
    readings.push_back(client_->read(parts, target.bytes));
    ASSERT_NE(readings.back(), nullptr) << i;
  }
  for (std::size_t i = readings.size(); i-- > 0;) {
    finish(*readings[i], *client_, *server_);
    const std::byte* const got = targets[i].bytes->data();
    EXPECT_EQ(std::memcmp(got, first.content.data() + 64 * i, 1000), 0);
    EXPECT_EQ(std::memcmp(got + 1000, second.content.data() + kBytes - 1000, 1000), 0);
    EXPECT_EQ(std::memcmp(got + 2000, first.content.data() + 10'000 + i, 1000), 0);
  }
}

TEST_P(TransportConformance, ReadsGoOnBetweenMessages) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced sent = announce(*server_, *client_, 1, pattern(kBytes, 1));
  Target target(kBytes);
  const ReadPart part{sent.base, kBytes, target.bytes->data()};
  const auto reading = client_->read({&part, 1}, target.bytes);
  put(*server_, {true, 7, pattern(100, 3)});
  put(*server_, {false, 0, pattern(200, 4)});
  const auto tagged = take(*client_);
  ASSERT_TRUE(tagged);
  EXPECT_EQ(tagged->bytes, pattern(100, 3));
  const auto untagged = take(*client_);
  ASSERT_TRUE(untagged);
  EXPECT_EQ(untagged->bytes, pattern(200, 4));
  finish(*reading, *client_, *server_);
  EXPECT_EQ(*target.bytes, sent.content);
}

TEST_P(TransportConformance, ReadsThatAreDroppedKeepTheirMemoryAsLongAsItIsWritten) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced sent = announce(*server_, *client_, 1, pattern(kBytes, 1));
  Target target(kBytes);
  Target other(64);
  const ReadPart part{sent.base, kBytes, target.bytes->data()};
  client_->read({&part, 1}, std::move(target.bytes)).reset();
  const ReadPart after{sent.base, 64, other.bytes->data()};
  const auto reading = client_->read({&after, 1}, other.bytes);
  finish(*reading, *client_, *server_);
  for (int i = 0; i < kPatienceMs && !target.watched.expired(); ++i) {
    client_->receive();
    server_->receive();
    rung(*client_, 1);
  }
  EXPECT_TRUE(target.watched.expired());
}

TEST_P(TransportConformance, ReadsEndWithTheConnection) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced sent = announce(*server_, *client_, 1, pattern(kBytes, 1));
  Target target(kBytes);
  const ReadPart part{sent.base, kBytes, target.bytes->data()};
  const auto reading = client_->read({&part, 1}, std::move(target.bytes));
  client_.reset();
  EXPECT_THROW(reading->done(), ConnectionError);
  // Where bytes may still arrive, the memory stays until the peer goes, and others come and go.
  for (int i = 0; i < kPatienceMs && !target.watched.expired(); ++i) {
    server_.reset();
    connect();
    client_.reset();
  }
  EXPECT_TRUE(target.watched.expired());
}

TEST_P(TransportConformance, ReadsFailWhenThePeerGoes) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced sent = announce(*server_, *client_, 1, pattern(kBytes, 1));
  Target target(kBytes);
  const ReadPart part{sent.base, kBytes, target.bytes->data()};
  const auto reading = client_->read({&part, 1}, target.bytes);
  server_.reset();
  EXPECT_THROW(
      {
        while (!reading->done()) {
          client_->receive();
          wait_readable(*client_, WaitMode::kAuto, 0, {});
        }
        throw ConnectionError("it was faster");
      },
      ConnectionError);
  EXPECT_THROW(take(*client_), ConnectionError);  // known by now, however the transport learns it
  EXPECT_THROW(client_->read({&part, 1}, target.bytes), ConnectionError);
}

TEST_P(TransportConformance, ReadsOutsideEveryRegionAreRefused) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced sent = announce(*server_, *client_, 1, pattern(kBytes, 1));
  for (const auto& [address, length] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {sent.base + kBytes - 10, 4096}, {sent.base - 4096, 8192}, {64, 8}, {UINT64_MAX - 7, 8}}) {
    Target target(8192);
    const ReadPart part{address, length, target.bytes->data()};
    const auto reading = client_->read({&part, 1}, target.bytes);
    ASSERT_NE(reading, nullptr);
    EXPECT_THROW(finish(*reading, *client_, *server_), ProtocolError) << address;
  }
}

TEST_P(TransportConformance, ReadsAcrossTwoRegionsAreRefused) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced one = announce(*server_, *client_, 1, pattern(kBytes, 1));
  const Announced other = announce(*server_, *client_, 2, pattern(kBytes, 2));
  const auto [low, high] = std::minmax(one.base, other.base);
  Target target(8192);
  // From the last bytes of one to the first of the other: each end is in a region.
  const ReadPart part{low + kBytes - 8, high + 8 - (low + kBytes - 8), target.bytes->data()};
  const auto reading = client_->read({&part, 1}, target.bytes);
  ASSERT_NE(reading, nullptr);
  EXPECT_THROW(finish(*reading, *client_, *server_), ProtocolError);
}

/// A read is under way, and one end goes, or the read alone is dropped.
enum class FirstToGo { kReading, kClient, kServer };

TEST_P(TransportConformance, ReadsMayEndAtAnyPoint) {
  constexpr std::size_t kLarge = 32 << 20;
  device::RegionWriter writer("conformance");
  const std::uint64_t offset = writer.append(std::vector<std::byte>(kLarge, std::byte{7}));
  const std::shared_ptr<const device::Region> region = writer.freeze();
  Target target(kLarge);
  const auto begin = [&](int turns) {
    const std::uint64_t base = announce(*server_, *client_, 1, region);
    const ReadPart part{base + offset, kLarge, target.bytes->data()};
    std::unique_ptr<Reading> reading = client_->read({&part, 1}, target.bytes);
    for (int turn = 0; turn < turns; ++turn) {
      client_->receive();
      server_->receive();
      server_->flush();
    }
    return reading;
  };
  const auto receive_to_the_end = [](Connection& end) {
    while (true) {
      end.receive();
      if (!wait_readable(end, WaitMode::kAuto, 0, {})) return;
    }
  };
  // The other end receives meanwhile, and then goes too, as another process does.
  const auto close = [&](std::unique_ptr<Connection>& end, std::unique_ptr<Connection>& other) {
    std::thread closing([&] { end.reset(); });
    EXPECT_THROW(receive_to_the_end(*other), ConnectionError);
    other.reset();
    closing.join();
  };
  for (const FirstToGo ends : {FirstToGo::kClient, FirstToGo::kServer, FirstToGo::kReading}) {
    for (const int turns : {0, 1, 2, 3, 5, 10}) {
      connect();
      if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
      std::unique_ptr<Reading> reading = begin(turns);
      ASSERT_NE(reading, nullptr);
      if (ends == FirstToGo::kReading) {
        reading.reset();
        put(*server_, {true, 7, pattern(100, 3)});
        const auto message = take(*server_, *client_);
        ASSERT_TRUE(message);
        EXPECT_EQ(message->bytes, pattern(100, 3)) << "the connection goes on";
      }
      ends == FirstToGo::kServer ? close(server_, client_) : close(client_, server_);
      EXPECT_EQ(target.bytes.use_count(), 1) << "somebody writes there, after " << turns;
      EXPECT_EQ(region.use_count(), 1) << turns;
      if (reading == nullptr) continue;
      try {
        EXPECT_TRUE(reading->done()) << "it is over, or has failed";
      } catch (const ConnectionError&) {
      }
    }
  }
}

TEST_P(TransportConformance, ReadsOfARetiredRegionAreRefused) {
  connect();
  if (!has(Way::kRead)) GTEST_SKIP() << "it has no reads";
  const Announced sent = announce(*server_, *client_, 1, pattern(kBytes, 1));
  ASSERT_TRUE(server_->retire(1));
  put(*server_, {true, 1, {}});
  ASSERT_TRUE(take(*client_));
  Target target(8);
  const ReadPart part{sent.base, 8, target.bytes->data()};
  const auto reading = client_->read({&part, 1}, target.bytes);
  EXPECT_THROW(finish(*reading, *client_, *server_), ProtocolError);
}

}  // namespace
}  // namespace crossdock::transport::conformance
