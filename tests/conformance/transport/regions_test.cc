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
  if (!server_->shares_memory()) {
    EXPECT_THROW(server_->announce(1, *sent.region), std::logic_error);
    return;
  }
  ASSERT_TRUE(server_->announce(1, *sent.region));
  put(*server_, {true, 1, {}});
  ASSERT_TRUE(take(*client_));
  const std::shared_ptr<const device::Region> got = client_->region(1, kPatienceMs);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->kind(), device::RegionKind::kFrozen);
  EXPECT_EQ(got->size(), sent.region->size());
  EXPECT_EQ(text_at(*got, sent.offset, 9), "one table");
  EXPECT_TRUE(client_->knows_region(1));
  EXPECT_EQ(client_->region(1, 0), got);
}

TEST_P(TransportConformance, WhoAsksForARegionNeedNotWaitForIt) {
  connect();
  if (!server_->shares_memory()) {
    EXPECT_TRUE(client_->knows_region(4)) << "that there is none";
    return;
  }
  EXPECT_FALSE(client_->knows_region(4));
  const Frozen sent = frozen("late");
  ASSERT_TRUE(server_->announce(4, *sent.region));
  EXPECT_TRUE(client_->knows_region(4));
  EXPECT_EQ(text_at(*client_->region(4, 0), sent.offset, 4), "late");
  server_.reset();
  EXPECT_TRUE(client_->knows_region(5)) << "that it will never come";
  EXPECT_THROW(client_->region(5, 0), Error);
}

TEST_P(TransportConformance, RecycledMemoryShowsWhatItsProducerWritesLater) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  const std::shared_ptr<device::Region> sent = device::Region::make_recycled(1 << 16, "conformance");
  ASSERT_TRUE(server_->announce(9, *sent));
  const std::shared_ptr<const device::Region> got = client_->region(9, kPatienceMs);
  std::memcpy(sent->writable() + 64, "later", 5);
  EXPECT_EQ(got->kind(), device::RegionKind::kRecycled);
  EXPECT_EQ(text_at(*got, 64, 5), "later");
  EXPECT_EQ(got->writable(), nullptr);
}

TEST_P(TransportConformance, ARegionOutlivesTheConnectionAndItsProducer) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  Frozen sent = frozen("one table");
  ASSERT_TRUE(server_->announce(65535, *sent.region));
  const std::shared_ptr<const device::Region> got = client_->region(65535, kPatienceMs);
  sent.region.reset();
  server_.reset();
  client_.reset();
  EXPECT_EQ(text_at(*got, sent.offset, 9), "one table");
}

TEST_P(TransportConformance, AnAnnouncementMayTrail) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  const Frozen sent = frozen("late");
  // Who waits asks the hook: so it is announced while it is waited for.
  bool announced = false;
  const InterruptHook announce_once = [&] {
    if (!announced) announced = server_->announce(4, *sent.region);
    return false;
  };
  const std::shared_ptr<const device::Region> got = client_->region(4, kPatienceMs, announce_once);
  EXPECT_TRUE(announced);
  EXPECT_EQ(text_at(*got, sent.offset, 4), "late");
}

TEST_P(TransportConformance, WaitingForARegionIsInterruptedAndCanGoOn) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  const Frozen sent = frozen("late");
  for (int asked_before = 0; asked_before < 3; ++asked_before) {
    int asked = 0;
    EXPECT_THROW(client_->region(4, kPatienceMs, [&] { return asked++ == asked_before; }), InterruptedError);
    EXPECT_EQ(asked, asked_before + 1);
  }
  ASSERT_TRUE(server_->announce(4, *sent.region));
  EXPECT_EQ(text_at(*client_->region(4, kPatienceMs, [] { return false; }), sent.offset, 4), "late");
}

TEST_P(TransportConformance, ARegionThatIsNeverAnnouncedIsAProtocolErrorAfterTheTimeGiven) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  EXPECT_THROW(client_->region(4, 0), ProtocolError);
  EXPECT_THROW(client_->region(4, 10), ProtocolError);
}

TEST_P(TransportConformance, ARegionIsNotWaitedForOnceThePeerIsGone) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  server_.reset();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_ANY_THROW(client_->region(4, kPatienceMs));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(kPatienceMs / 2));
}

TEST_P(TransportConformance, AnAnnouncedRegionCanStillBeHadOnceThePeerIsGone) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  const Frozen sent = frozen("last");
  ASSERT_TRUE(server_->announce(4, *sent.region));
  put(*server_, {true, 1, {}});
  server_.reset();
  ASSERT_TRUE(take(*client_));
  EXPECT_EQ(text_at(*client_->region(4, kPatienceMs), sent.offset, 4), "last");
}

TEST_P(TransportConformance, ARetiredNumberNamesTheNextRegion) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  const Frozen first = frozen("first");
  const Frozen second = frozen("second");
  ASSERT_TRUE(server_->announce(4, *first.region));
  const std::shared_ptr<const device::Region> got_first = client_->region(4, kPatienceMs);
  ASSERT_TRUE(server_->retire(4));
  ASSERT_TRUE(server_->announce(4, *second.region));
  // The old meaning holds for the messages before the retirement: the new one begins with a message behind it.
  put(*server_, {true, 1, {}});
  ASSERT_TRUE(take(*client_));
  // Announced behind it, so once this one is there, so is the other.
  ASSERT_TRUE(server_->announce(5, *second.region));
  ASSERT_NE(client_->region(5, kPatienceMs), nullptr);
  const std::shared_ptr<const device::Region> got_second = client_->region(4, kPatienceMs);
  EXPECT_EQ(text_at(*got_second, second.offset, 6), "second");
  EXPECT_EQ(text_at(*got_first, first.offset, 5), "first");  // as long as somebody holds it
}

TEST_P(TransportConformance, RegionNumbersOfTheDirectionsDoNotMix) {
  connect();
  if (!server_->shares_memory() || !GetParam().regions_both_ways) GTEST_SKIP() << "regions pass one way only";
  const Frozen there = frozen("there");
  const Frozen back = frozen("back!");
  ASSERT_TRUE(server_->announce(1, *there.region));
  ASSERT_TRUE(client_->announce(1, *back.region));
  EXPECT_EQ(text_at(*client_->region(1, kPatienceMs), there.offset, 5), "there");
  EXPECT_EQ(text_at(*server_->region(1, kPatienceMs), back.offset, 5), "back!");
}

TEST_P(TransportConformance, AnAnnouncementMakesTheDescriptorReadable) {
  connect();
  if (!server_->shares_memory()) GTEST_SKIP() << "no memory is shared";
  const Frozen sent = frozen("x");
  ASSERT_TRUE(server_->announce(1, *sent.region));
  EXPECT_TRUE(rung(*client_, kPatienceMs));
}

}  // namespace
}  // namespace crossdock::transport::conformance
