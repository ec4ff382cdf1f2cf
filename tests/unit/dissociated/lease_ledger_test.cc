#include "dissociated/lease_ledger.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "support.h"
#include "support/freed.h"

namespace crossdock::dissociated {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class Ledger : public ::testing::Test {
 protected:
  explicit Ledger(FreeRule rule = FreeRule::kCounted) : ledger_(rule) {}

  void lend(std::initializer_list<RemoteBuffer> buffers, std::uint64_t holder) {
    ledger_.lend({buffers.begin(), buffers.size()}, holder);
  }
  std::vector<std::uint64_t> free(std::initializer_list<std::uint64_t> addresses) {
    std::vector<Freed> freed;
    ledger_.free({addresses.begin(), addresses.size()}, &freed);
    return holders(freed);
  }

  LeaseLedger ledger_;
};

class AsSpecifiedLedger : public Ledger {
 protected:
  AsSpecifiedLedger() : Ledger(FreeRule::kAsSpecified) {}
};

TEST_F(Ledger, GivesEachPairsHolderBack) {
  lend({{64, 10}, {128, 20}}, 7);
  lend({{192, 30}}, 8);
  EXPECT_EQ(ledger_.outstanding(), 3u);
  EXPECT_EQ(ledger_.outstanding_bytes(), 60u);
  EXPECT_THAT(free({128, 192}), ElementsAre(7, 8));
  EXPECT_EQ(ledger_.outstanding(), 1u);
  EXPECT_EQ(ledger_.outstanding_bytes(), 10u);
  EXPECT_THAT(free({64}), ElementsAre(7));
  EXPECT_EQ(ledger_.outstanding(), 0u);
  EXPECT_EQ(ledger_.outstanding_bytes(), 0u);
}

TEST_F(Ledger, SkipsAbsentBuffersAndIgnoresTheirFrees) {
  lend({{0, 0}, {64, 1}}, 1);
  EXPECT_EQ(ledger_.outstanding(), 1u);
  EXPECT_THAT(free({0, 64, 0}), ElementsAre(1));
  EXPECT_THAT(free({0}), IsEmpty());
}

TEST_F(Ledger, CountsAnAddressSentTwice) {
  lend({{64, 5}}, 1);
  lend({{64, 5}}, 1);
  EXPECT_THAT(free({64}), ElementsAre(1));
  EXPECT_EQ(ledger_.outstanding(), 1u);
  EXPECT_THAT(free({64}), ElementsAre(1));
  EXPECT_ERROR(free({64}), ProtocolError, "address 64");
}

TEST_F(Ledger, GivesHoldersOfOneAddressBackInTheOrderLent) {
  lend({{64, 5}}, 1);
  lend({{64, 6}}, 2);
  lend({{64, 6}, {64, 6}}, 3);
  lend({{64, 7}}, 1);
  EXPECT_EQ(ledger_.outstanding_bytes(), 30u);
  EXPECT_THAT(free({64, 64}), ElementsAre(1, 2));
  EXPECT_EQ(ledger_.outstanding_bytes(), 19u);
  lend({{64, 1}}, 9);
  EXPECT_THAT(free({64, 64, 64, 64}), ElementsAre(3, 3, 1, 9));
  EXPECT_EQ(ledger_.outstanding(), 0u);
}

TEST_F(Ledger, TheEndOfAStreamChangesNothingForOurOwnClients) {
  lend({{64, 5}, {64, 5}}, 1);
  ledger_.stream_ended();
  EXPECT_THAT(free({64}), ElementsAre(1));
  EXPECT_EQ(ledger_.outstanding(), 1u);
  EXPECT_THAT(free({64}), ElementsAre(1));
  EXPECT_ERROR(free({64}), ProtocolError, "freed more often than it was sent");
}

TEST_F(Ledger, RefusesAnAddressThatWasNeverSent) {
  EXPECT_ERROR(free({64}), ProtocolError, "address 64, which is not leased");
  lend({{64, 5}}, 1);
  std::vector<Freed> freed;
  const std::uint64_t addresses[] = {64, 65, 64};
  EXPECT_ERROR(ledger_.free(addresses, &freed), ProtocolError, "address 65");
  EXPECT_THAT(holders(freed), ElementsAre(1));  // what stood before it
  EXPECT_EQ(ledger_.outstanding(), 0u);
}

TEST_F(Ledger, ItsMemoryGrowsWithWhatIsLent) {
  const std::uint64_t empty = ledger_.memory();
  for (std::uint64_t i = 1; i <= 10'000; ++i) lend({{64 * i, 5}}, 1);
  EXPECT_GT(ledger_.memory(), empty + 10'000 * 32);
  const std::uint64_t distinct = ledger_.memory();
  for (std::uint64_t i = 1; i <= 10'000; ++i) lend({{64, 5}}, 1 + i % 2);
  EXPECT_GT(ledger_.memory(), distinct + 10'000 * 16) << "leases of one address, of two holders";
}

// "A client that frees each distinct address once, after the last body, must be enough."
TEST_F(AsSpecifiedLedger, OneFreeAfterTheEndEndsAllLeasesOfAnAddress) {
  lend({{64, 5}}, 1);
  lend({{64, 5}, {128, 1}}, 2);
  lend({{64, 5}}, 1);
  ledger_.stream_ended();
  EXPECT_THAT(free({64, 128}), ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(ledger_.outstanding(), 0u);
  EXPECT_EQ(ledger_.outstanding_bytes(), 0u);
}

TEST_F(AsSpecifiedLedger, BeforeTheEndOneFreeEndsOneLeaseSoNothingIsReusedEarly) {
  lend({{64, 5}, {64, 5}, {64, 5}}, 1);
  EXPECT_THAT(free({64}), ElementsAre(1));
  EXPECT_EQ(ledger_.outstanding(), 2u);
  ledger_.stream_ended();
  EXPECT_THAT(free({64}), ElementsAre(1, 1));
}

TEST_F(AsSpecifiedLedger, AClientThatCountsAfterTheEndIsNoOffender) {
  lend({{64, 5}, {64, 5}, {64, 5}}, 1);
  EXPECT_THAT(free({64}), ElementsAre(1));
  ledger_.stream_ended();
  EXPECT_THAT(free({64}), ElementsAre(1, 1));
  EXPECT_THAT(free({64}), IsEmpty());  // its third
  EXPECT_ERROR(free({64}), ProtocolError, "freed more often than it was sent");
}

TEST_F(AsSpecifiedLedger, OwedFreesDoNotTouchTheNextStreamWhileItIsUnderWay) {
  lend({{64, 5}, {64, 5}}, 1);
  ledger_.stream_ended();
  EXPECT_THAT(free({64}), ElementsAre(1, 1));
  lend({{64, 5}}, 2);  // the next stream
  EXPECT_THAT(free({64}), IsEmpty());
  EXPECT_EQ(ledger_.outstanding(), 1u);
  EXPECT_THAT(free({64}), ElementsAre(2));
}

TEST_F(AsSpecifiedLedger, AFreeDuringTheNextStreamEndsWhatThePreviousOneLeft) {
  lend({{64, 5}, {64, 5}}, 1);
  ledger_.stream_ended();
  lend({{64, 5}, {64, 5}}, 2);
  EXPECT_THAT(free({64}), ElementsAre(1, 1));
  EXPECT_EQ(ledger_.outstanding(), 2u);
  ledger_.stream_ended();
  EXPECT_THAT(free({64}), ElementsAre(2, 2));
}

TEST_F(AsSpecifiedLedger, OneFreeAfterTwoStreamsEndsTheLeasesOfBoth) {
  lend({{64, 5}}, 1);
  ledger_.stream_ended();
  lend({{64, 5}, {64, 6}}, 2);
  ledger_.stream_ended();
  EXPECT_THAT(free({64}), ElementsAre(1, 2, 2));
}

TEST_F(AsSpecifiedLedger, LendingCostsTheSameHoweverManyStreamsLeftLeases) {
  constexpr std::uint64_t kStreams = 400'000;  // counting them anew for each would take minutes
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t stream = 0; stream < kStreams; ++stream) {
    lend({{64, 10}}, stream);
    ledger_.stream_ended();
  }
  EXPECT_EQ(ledger_.outstanding(), kStreams);
  EXPECT_EQ(free({64}).size(), kStreams);
  EXPECT_EQ(ledger_.outstanding(), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(AsSpecifiedLedger, OwedFreesSurviveAGrowingTable) {
  lend({{64, 5}, {64, 5}}, 1);
  ledger_.stream_ended();
  EXPECT_THAT(free({64}), ElementsAre(1, 1));
  for (std::uint64_t address = 1000; address < 6000; ++address) lend({{address, 1}}, 3);
  EXPECT_THAT(free({64}), IsEmpty());
  EXPECT_ERROR(free({64}), ProtocolError, "address 64");
}

/// The same, written the slow and obvious way.
class PlainLedger {
 public:
  void lend(std::uint64_t address, std::uint64_t length, std::uint64_t holder) {
    leases_[address].push_back({holder, length});
  }
  std::optional<std::uint64_t> free(std::uint64_t address) {
    auto found = leases_.find(address);
    if (found == leases_.end()) return std::nullopt;
    const std::uint64_t holder = found->second.front().first;
    found->second.pop_front();
    if (found->second.empty()) leases_.erase(found);
    return holder;
  }
  std::pair<std::size_t, std::uint64_t> totals() const {
    std::size_t pairs = 0;
    std::uint64_t bytes = 0;
    for (const auto& [address, leases] : leases_) {
      pairs += leases.size();
      for (const auto& lease : leases) bytes += lease.second;
    }
    return {pairs, bytes};
  }

 private:
  std::map<std::uint64_t, std::deque<std::pair<std::uint64_t, std::uint64_t>>> leases_;
};

// Few addresses, with many leases of each; and so many that the table is split.
class LedgerOfWidth : public Ledger, public ::testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Addresses, LedgerOfWidth, ::testing::Values(300, 30'000));

TEST_P(LedgerOfWidth, AgreesWithAPlainOneOverManyRandomSteps) {
  std::mt19937_64 random(42);
  PlainLedger plain;
  for (int step = 0; step < 200'000; ++step) {
    // Region numbers on top, offsets below, as on shm; a window that moves, so that old addresses fall idle.
    const std::uint64_t address =
        ((random() % 5) << 48) | ((1 + random() % GetParam() + static_cast<std::uint64_t>(step) / 100) * 64);
    if (random() % 2 == 0) {
      const std::uint64_t length = random() % 3 * 10 + 1;
      const std::uint64_t holder = random() % 3;
      lend({{address, length}}, holder);
      plain.lend(address, length, holder);
    } else if (const auto holder = plain.free(address)) {
      ASSERT_THAT(free({address}), ElementsAre(*holder));
    } else {
      ASSERT_THROW(free({address}), ProtocolError);
    }
    if (step % 5000 == 0) {
      ASSERT_EQ(std::pair(ledger_.outstanding(), ledger_.outstanding_bytes()), plain.totals());
    }
  }
  EXPECT_EQ(std::pair(ledger_.outstanding(), ledger_.outstanding_bytes()), plain.totals());
}

TEST_F(Ledger, StopsAfterSoManyStepsAndGoesOn) {
  lend({{64, 1}, {128, 2}, {192, 3}}, 7);
  const std::vector<std::uint64_t> addresses = {64, 0, 128, 192};
  const std::span<const std::uint64_t> all(addresses);
  std::vector<Freed> freed;
  EXPECT_EQ(ledger_.free(all, &freed, 0), 0u);
  EXPECT_EQ(ledger_.free(all, &freed, 2), 2u);
  EXPECT_EQ(ledger_.outstanding(), 2u);
  EXPECT_EQ(ledger_.free(all.subspan(2), &freed, 100), 2u);
  EXPECT_THAT(holders(freed), ElementsAre(7, 7, 7));
}

// One free ends all leases of ended streams: those of one address too are ended in slices, and as many frees are owed
// as if they had ended at once.
TEST_F(AsSpecifiedLedger, EndsTheLeasesOfOneAddressInSlices) {
  constexpr std::uint64_t kLeases = 10;
  for (std::uint64_t holder = 0; holder < kLeases; ++holder) lend({{64, 1}}, holder);
  ledger_.stream_ended();
  const std::vector<std::uint64_t> address = {64};
  std::vector<Freed> freed;
  EXPECT_EQ(ledger_.free(address, &freed, 5), 0u);
  EXPECT_EQ(holders(freed).size(), 4u);
  lend({{64, 1}}, 20);  // the next stream's, which ends in the middle, too: it belongs to the ended ones then
  ledger_.stream_ended();
  lend({{64, 1}}, 30);
  EXPECT_EQ(ledger_.free(address, &freed, 3), 0u);
  EXPECT_EQ(ledger_.free(address, &freed), 1u);
  EXPECT_EQ(holders(freed).size(), kLeases + 1);
  EXPECT_EQ(freed.back().holder, 20u);
  EXPECT_EQ(ledger_.outstanding(), 1u);
  for (std::uint64_t owed = 0; owed < kLeases; ++owed) EXPECT_THAT(free({64}), IsEmpty()) << owed;
  EXPECT_THAT(free({64}), ElementsAre(30));
}

TEST(LeaseLedgerAge, IsThatOfTheLeaseThatHasBeenOutLongest) {
  LeaseLedger ledger;
  std::vector<Freed> freed;
  const auto lend = [&](std::uint64_t address, std::uint64_t holder, std::int64_t now) {
    const RemoteBuffer buffer{address, 10};
    ledger.lend({&buffer, 1}, holder, now);
  };
  const auto end_lease = [&](std::uint64_t address) { ledger.free({&address, 1}, &freed); };
  EXPECT_FALSE(ledger.oldest_ms());
  lend(100, 1, 1000);
  lend(200, 1, 2000);
  lend(100, 2, 3000);  // another holder: a lease with a time of its own
  lend(300, 3, 4000);
  lend(300, 3, 5000);  // the same again: counts from the first
  EXPECT_EQ(ledger.oldest_ms(), 1000);
  end_lease(200);
  EXPECT_EQ(ledger.oldest_ms(), 1000);
  end_lease(100);
  EXPECT_EQ(ledger.oldest_ms(), 3000);
  end_lease(100);
  end_lease(300);
  EXPECT_EQ(ledger.oldest_ms(), 4000);
  end_lease(300);
  EXPECT_FALSE(ledger.oldest_ms());
}

TEST(LeaseLedgerAge, IsThatOfTheOldestBodyOfAClientThatFreesInOrder) {
  LeaseLedger ledger;
  std::vector<Freed> freed;
  const std::array<RemoteBuffer, 2> body{{{64, 10}, {128, 10}}};
  const std::array<std::uint64_t, 2> addresses{64, 128};
  for (const std::int64_t now : {1000, 2000, 3000}) ledger.lend(body, 1, now);
  for (const std::int64_t oldest : {1000, 2000, 3000}) {
    EXPECT_EQ(ledger.oldest_ms(), oldest);
    ledger.free(addresses, &freed);
  }
  EXPECT_FALSE(ledger.oldest_ms());
}

// Bodies that are freed whole and in order are counted as bodies, others by their addresses. What a client may do at
// any moment is to change from one to the other.
class LedgerOfBodies : public Ledger, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(OneFreeInSoManyIsOutOfOrder, LedgerOfBodies, ::testing::Values(2, 20, 500, 100'000));

TEST_P(LedgerOfBodies, AgreesWithAPlainOneWhateverTheOrderOfFrees) {
  std::mt19937_64 random(7);
  PlainLedger plain;
  std::deque<std::vector<std::uint64_t>> held;
  const auto free_both = [&](const std::vector<std::uint64_t>& addresses) {
    std::vector<std::uint64_t> expected;
    for (const std::uint64_t address : addresses) expected.push_back(plain.free(address).value());
    std::vector<Freed> freed;
    ASSERT_EQ(ledger_.free(addresses, &freed), addresses.size());
    ASSERT_EQ(holders(freed), expected);
  };
  for (int step = 0; step < 30'000; ++step) {
    const bool fill = held.size() < (step / 3000 % 2 == 0 ? 8u : 800u);  // also more than are counted as bodies
    if (fill && random() % 3 != 0) {
      std::vector<RemoteBuffer> body;
      std::vector<std::uint64_t> addresses;
      for (std::uint64_t i = random() % 12; i > 0; --i) {
        const RemoteBuffer buffer{random() % 4 == 0 ? 0 : 64 * (1 + random() % 300), 1 + random() % 100};
        body.push_back(buffer);
        if (buffer.address == 0) continue;
        addresses.push_back(buffer.address);
        plain.lend(buffer.address, buffer.length, static_cast<std::uint64_t>(step));
      }
      ledger_.lend(body, static_cast<std::uint64_t>(step));
      held.push_back(std::move(addresses));
    } else if (!held.empty()) {
      if (random() % static_cast<std::uint64_t>(GetParam()) == 0) {
        std::swap(held.front(), held[random() % held.size()]);
        std::shuffle(held.front().begin(), held.front().end(), random);
      }
      std::vector<std::uint64_t> together = held.front();
      held.pop_front();
      if (!held.empty() && random() % 4 == 0) {
        together.insert(together.end(), held.front().begin(), held.front().end());
        held.pop_front();
      }
      ASSERT_NO_FATAL_FAILURE(free_both(together)) << step;
    }
    ASSERT_EQ(std::pair(ledger_.outstanding(), ledger_.outstanding_bytes()), plain.totals()) << step;
  }
  while (!held.empty()) {
    ASSERT_NO_FATAL_FAILURE(free_both(held.front()));
    held.pop_front();
  }
  EXPECT_EQ(ledger_.outstanding(), 0u);
}

TEST_F(Ledger, RefusesABodyThatWasFreedBefore) {
  lend({{64, 1}, {128, 1}}, 1);
  lend({{192, 1}}, 2);
  EXPECT_THAT(free({64, 128}), ElementsAre(1, 1));
  EXPECT_ERROR(free({64, 128}), ProtocolError, "address 64");
  EXPECT_THAT(free({192}), ElementsAre(2));
}

}  // namespace
}  // namespace crossdock::dissociated
