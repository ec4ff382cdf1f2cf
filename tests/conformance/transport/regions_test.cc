#include <chrono>
#include <cstring>

#include "crossdock/core/error.h"
#include "suite.h"

namespace crossdock::transport::conformance {
namespace {

struct Frozen {
  std::shared_ptr<const device::Region> region;
  std::uint64_t offset;
};

Frozen frozen(std::string_view text) {
  device::RegionWriter writer("conformance");
  const std::uint64_t offset = writer.append(as_bytes(text));
  return {writer.freeze(), offset};
}

std::string_view text_at(const device::Region& region, std::uint64_t offset, std::size_t size) {
  return {reinterpret_cast<const char*>(region.data() + offset), size};
}

TEST_P(TransportConformance, AnAnnouncedRegionIsTheSameMemory) {
  connect();
  const Frozen sent = frozen("one table");
  if (server_->agreement().ways == Way::kMessage) {
    EXPECT_THROW(server_->announce(1, sent.region), std::logic_error);
    return;
  }
  const std::optional<std::uint64_t> base = server_->announce(1, sent.region);
  ASSERT_TRUE(base);
  if (GetParam().base) {
    EXPECT_EQ(base, GetParam().base(1, *sent.region));
  }
  put(*server_, {true, 1, {}});
  ASSERT_TRUE(take(*client_));
  const auto known = client_->peer_region(*base + sent.offset, kPatienceMs);
  EXPECT_EQ(known->base, *base);
  EXPECT_EQ(known->size, sent.region->size());
  if (!has(Way::kMap)) {
    EXPECT_EQ(known->mapped, nullptr);
    return;
  }
  const std::shared_ptr<const device::Region> got = mapped(*client_, 1, *sent.region, kPatienceMs);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->kind(), device::RegionKind::kFrozen);
  EXPECT_EQ(got->size(), sent.region->size());
  EXPECT_EQ(text_at(*got, sent.offset, 9), "one table");
  EXPECT_TRUE(client_->knows_region(GetParam().base(1, *sent.region)));
  EXPECT_EQ(mapped(*client_, 1, *sent.region, 0), got);
}

TEST_P(TransportConformance, WhoAsksForARegionNeedNotWaitForIt) {
  connect();
  const Frozen sent = frozen("late");
  if (server_->agreement().ways == Way::kMessage) {
    EXPECT_TRUE(client_->knows_region(64)) << "that there is none";
    EXPECT_THROW(client_->peer_region(64, 0), ProtocolError);
    return;
  }
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  EXPECT_FALSE(client_->knows_region(GetParam().base(4, *sent.region)));
  ASSERT_TRUE(server_->announce(4, sent.region));
  EXPECT_TRUE(client_->knows_region(GetParam().base(4, *sent.region)));
  EXPECT_EQ(text_at(*mapped(*client_, 4, *sent.region, 0), sent.offset, 4), "late");
  server_.reset();
  EXPECT_TRUE(client_->knows_region(GetParam().base(5, *sent.region))) << "that it will never come";
  EXPECT_THROW(mapped(*client_, 5, *sent.region, 0), Error);
}

TEST_P(TransportConformance, RecycledMemoryShowsWhatItsProducerWritesLater) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  const std::shared_ptr<device::Region> sent = device::Region::make_recycled(1 << 16, "conformance");
  ASSERT_TRUE(server_->announce(9, sent));
  const std::shared_ptr<const device::Region> got = mapped(*client_, 9, *sent, kPatienceMs);
  std::memcpy(sent->writable() + 64, "later", 5);
  EXPECT_EQ(got->kind(), device::RegionKind::kRecycled);
  EXPECT_EQ(text_at(*got, 64, 5), "later");
  EXPECT_EQ(got->writable(), nullptr);
}

TEST_P(TransportConformance, ARegionOutlivesTheConnectionAndItsProducer) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  Frozen sent = frozen("one table");
  ASSERT_TRUE(server_->announce(65535, sent.region));
  const std::shared_ptr<const device::Region> got = mapped(*client_, 65535, *sent.region, kPatienceMs);
  sent.region.reset();
  server_.reset();
  client_.reset();
  EXPECT_EQ(text_at(*got, sent.offset, 9), "one table");
}

TEST_P(TransportConformance, AnAnnouncementMayTrail) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  const Frozen sent = frozen("late");
  // Who waits asks the hook: so it is announced while it is waited for.
  bool announced = false;
  const InterruptHook announce_once = [&] {
    if (!announced) announced = server_->announce(4, sent.region).has_value();
    return false;
  };
  const std::shared_ptr<const device::Region> got = mapped(*client_, 4, *sent.region, kPatienceMs, announce_once);
  EXPECT_TRUE(announced);
  EXPECT_EQ(text_at(*got, sent.offset, 4), "late");
}

TEST_P(TransportConformance, WaitingForARegionIsInterruptedAndCanGoOn) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  const Frozen sent = frozen("late");
  for (int asked_before = 0; asked_before < 3; ++asked_before) {
    int asked = 0;
    EXPECT_THROW(mapped(*client_, 4, *sent.region, kPatienceMs, [&] { return asked++ == asked_before; }),
                 InterruptedError);
    EXPECT_EQ(asked, asked_before + 1);
  }
  ASSERT_TRUE(server_->announce(4, sent.region));
  EXPECT_EQ(text_at(*mapped(*client_, 4, *sent.region, kPatienceMs, [] { return false; }), sent.offset, 4), "late");
}

TEST_P(TransportConformance, ARegionThatIsNeverAnnouncedIsAProtocolErrorAfterTheTimeGiven) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  EXPECT_THROW(mapped(*client_, 4, *frozen("never").region, 0), ProtocolError);
  EXPECT_THROW(mapped(*client_, 4, *frozen("never").region, 10), ProtocolError);
}

TEST_P(TransportConformance, ARegionIsNotWaitedForOnceThePeerIsGone) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  server_.reset();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_ANY_THROW(mapped(*client_, 4, *frozen("never").region, kPatienceMs));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(kPatienceMs / 2));
}

TEST_P(TransportConformance, AnAnnouncedRegionCanStillBeHadOnceThePeerIsGone) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  const Frozen sent = frozen("last");
  ASSERT_TRUE(server_->announce(4, sent.region));
  put(*server_, {true, 1, {}});
  server_.reset();
  ASSERT_TRUE(take(*client_));
  EXPECT_EQ(text_at(*mapped(*client_, 4, *sent.region, kPatienceMs), sent.offset, 4), "last");
}

TEST_P(TransportConformance, ARetiredNumberNamesTheNextRegion) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  const Frozen first = frozen("first");
  const Frozen second = frozen("second");
  ASSERT_TRUE(server_->announce(4, first.region));
  const std::shared_ptr<const device::Region> got_first = mapped(*client_, 4, *first.region, kPatienceMs);
  ASSERT_TRUE(server_->retire(4));
  ASSERT_TRUE(server_->announce(4, second.region));
  // The old meaning holds for the messages before the retirement: the new one begins with a message behind it.
  put(*server_, {true, 1, {}});
  ASSERT_TRUE(take(*client_));
  // Announced behind it, so once this one is there, so is the other.
  ASSERT_TRUE(server_->announce(5, second.region));
  ASSERT_NE(mapped(*client_, 5, *second.region, kPatienceMs), nullptr);
  const std::shared_ptr<const device::Region> got_second = mapped(*client_, 4, *first.region, kPatienceMs);
  EXPECT_EQ(text_at(*got_second, second.offset, 6), "second");
  EXPECT_EQ(text_at(*got_first, first.offset, 5), "first");  // as long as somebody holds it
}

TEST_P(TransportConformance, RegionNumbersOfTheDirectionsDoNotMix) {
  connect();
  if (!has(Way::kMap) || !GetParam().regions_both_ways) GTEST_SKIP() << "regions pass one way only";
  const Frozen there = frozen("there");
  const Frozen back = frozen("back!");
  ASSERT_TRUE(server_->announce(1, there.region));
  ASSERT_TRUE(client_->announce(1, back.region));
  EXPECT_EQ(text_at(*mapped(*client_, 1, *there.region, kPatienceMs), there.offset, 5), "there");
  EXPECT_EQ(text_at(*mapped(*server_, 1, *back.region, kPatienceMs), back.offset, 5), "back!");
}

TEST_P(TransportConformance, AnAnnouncementMakesTheDescriptorReadable) {
  connect();
  if (!has(Way::kMap)) GTEST_SKIP() << "no memory is mapped";
  const Frozen sent = frozen("x");
  ASSERT_TRUE(server_->announce(1, sent.region));
  EXPECT_TRUE(rung(*client_, kPatienceMs));
}

}  // namespace
}  // namespace crossdock::transport::conformance
