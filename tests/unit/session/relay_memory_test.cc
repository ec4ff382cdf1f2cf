// What a relay counts against its limit, and when.

#include "session/relay_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/runtime.h"
#include "support/batches.h"

namespace crossdock::session {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kRelayLimit = 1000;
constexpr std::uint64_t kMostRegions = 3;

std::shared_ptr<const PublishedTable> table_of(std::uint64_t bytes) {
  auto table = std::make_shared<PublishedTable>();
  table->schema = testing::make_schema({});
  table->bytes = bytes;
  return table;
}

/// Memory whose tables, all of 300 bytes, are kept here until they are evicted.
struct Kept {
  std::vector<std::shared_ptr<const PublishedTable>> tables;
  int asked = 0;
  std::shared_ptr<RelayMemory> memory = std::make_shared<RelayMemory>(
      kRelayLimit, kMostRegions, [this](std::uint64_t needed, const RelayMemory::SizeOf& size_of) {
        ++asked;
        std::uint64_t all = 0;
        for (const auto& table : tables) all += size_of(*table);
        if (all < needed) return false;
        for (std::uint64_t freed = 0; freed < needed; tables.pop_back()) freed += size_of(*tables.back());
        return true;
      });

  void add() {
    memory->take(300, "a table");
    memory->take_region("a table");
    tables.push_back(table_of(300));
    memory->keep(300, tables.back());
  }
};

TEST(RelayMemoryTest, EvictsOnlyWhatItNeeds) {
  Kept kept;
  for (int i = 0; i < 3; ++i) kept.add();
  EXPECT_EQ(kept.memory->used(), 900U);
  kept.memory->take(100, "more");
  EXPECT_EQ(kept.asked, 0);
  kept.memory->take(500, "more");
  EXPECT_EQ(kept.asked, 1);
  EXPECT_EQ(kept.memory->used(), 900U);
  kept.memory->release(600);
  EXPECT_EQ(kept.memory->used(), 300U);
}

TEST(RelayMemoryTest, ATableCountsUntilItsLastOwnerDropsIt) {
  Kept kept;
  kept.add();
  auto held = kept.tables.back();
  kept.tables.clear();
  EXPECT_EQ(kept.memory->used(), 300U);
  held.reset();
  EXPECT_EQ(kept.memory->used(), 0U);
}

TEST(RelayMemoryTest, FailsWhereNothingIsLeftToEvict) {
  Kept kept;
  kept.add();
  const auto held = kept.tables.back();
  try {
    kept.memory->take(701, "large");
    FAIL();
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("max_memory is 1000 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("use, 300, and 'large' needs 701 more"));
  }
  EXPECT_EQ(kept.memory->used(), 300U);
}

TEST(RelayMemoryTest, EvictsNothingForWhatNeverFits) {
  Kept kept;
  kept.add();
  for (const std::uint64_t bytes : {kRelayLimit + 1, ~std::uint64_t{0}}) {
    EXPECT_THROW(kept.memory->take(bytes, "x"), ResourceError);
  }
  EXPECT_EQ(kept.asked, 0);
}

TEST(RelayMemoryTest, EvictsNothingWhereAllOfItWouldNotDo) {
  Kept kept;
  for (int i = 0; i < 3; ++i) kept.add();
  const auto held = kept.tables.back();
  kept.tables.pop_back();
  EXPECT_THROW(kept.memory->take(701, "x"), ResourceError);
  EXPECT_EQ(kept.tables.size(), 2U);
}

TEST(RelayMemoryTest, CountsTheMemoryFilesOfTables) {
  Kept kept;
  const auto in_one_region = [&] {
    auto table = std::make_shared<PublishedTable>();
    device::RegionWriter writer("relay-test");
    writer.append(std::vector<std::byte>(8));
    table->regions.push_back(writer.freeze());
    return std::shared_ptr<const PublishedTable>(std::move(table));
  };
  const auto keep = [&](const std::shared_ptr<const PublishedTable>& table) {
    kept.memory->take(1, "x");
    kept.memory->take_region("x");
    kept.memory->keep(1, table);
  };
  for (std::uint64_t i = 0; i < kMostRegions; ++i) {
    kept.tables.push_back(in_one_region());
    keep(kept.tables.back());
  }
  const auto more = in_one_region();
  keep(more);
  EXPECT_EQ(kept.tables.size(), kMostRegions - 1) << "one was evicted for it";
  kept.tables.clear();
  kept.memory->take_region("one that is being fetched");
  const auto held = in_one_region();
  keep(held);
  try {
    kept.memory->take_region("x");
    FAIL();
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory files, as many as it may"));
  }
  kept.memory->release_region();
  kept.memory->take_region("x");
}

/// Bodies of one fetch.
struct Fetch {
  explicit Fetch(std::uint64_t expected, std::uint64_t limit = kRelayLimit)
      : kept{.tables = {},
             .memory = std::make_shared<RelayMemory>(limit, kMostRegions,
                                                     [](std::uint64_t, const RelayMemory::SizeOf&) { return false; })},
        into(std::make_shared<FetchMemory>(kept.memory, std::make_shared<device::Arena>(1 << 20), "x", expected)) {}
  Kept kept;
  std::shared_ptr<FetchMemory> into;
};

TEST(FetchMemoryTest, CountsWhatIsExpectedAndThenWhatComes) {
  Fetch fetch(200);
  EXPECT_EQ(fetch.kept.memory->used(), 200U);
  const auto first = fetch.into->allocate(100);
  EXPECT_EQ(fetch.kept.memory->used(), 200U);
  const auto second = fetch.into->allocate(100);
  EXPECT_EQ(second.get() - first.get(), 128);
  EXPECT_EQ(fetch.kept.memory->used(), 256U);
  EXPECT_THROW(fetch.into->allocate(800), ResourceError);
  EXPECT_THROW(fetch.into->allocate(~std::uint64_t{0}), ResourceError);
  EXPECT_EQ(fetch.kept.memory->used(), 256U);
  fetch.into.reset();
  EXPECT_EQ(fetch.kept.memory->used(), 0U);
}

TEST(FetchMemoryTest, KeepsWhatATableTakesAndReleasesTheRest) {
  constexpr std::uint64_t kPage = 4096;
  for (const auto& [bytes, counted] : {std::pair{100U, kPage}, {5000U, std::uint64_t{5000}}}) {
    Fetch fetch(6000, 1 << 20);
    const auto body = fetch.into->allocate(100);
    auto table = table_of(bytes);
    fetch.into->keep(table);
    EXPECT_EQ(fetch.kept.memory->used(), counted);
    fetch.into.reset();
    EXPECT_EQ(fetch.kept.memory->used(), counted);
    table.reset();
    EXPECT_EQ(fetch.kept.memory->used(), 0U);
  }
}

TEST(FetchMemoryTest, CountsBatchesThatNeedNoAllocation) {
  Fetch fetch(0);
  const auto body = fetch.into->allocate(100);
  fetch.into->charge({.buffers = 100, .messages = 50});
  EXPECT_EQ(fetch.kept.memory->used(), 178U) << "its body is counted once";
  fetch.into->charge({.buffers = 300, .messages = 50});
  EXPECT_EQ(fetch.kept.memory->used(), 500U);
  EXPECT_THROW(fetch.into->charge({.buffers = 0, .messages = 501}), ResourceError);
}

TEST(FetchMemoryTest, ATableThatTakesMoreThanThereIsIsRefused) {
  Fetch fetch(200);
  const auto table = table_of(kRelayLimit + 1);
  EXPECT_THROW(fetch.into->keep(table), ResourceError);
  fetch.into.reset();
  EXPECT_EQ(fetch.kept.memory->used(), 0U);
}

TEST(FetchMemoryTest, FailsAtOnceWhereTheExpectedDoesntFit) { EXPECT_THROW(Fetch(kRelayLimit + 1), ResourceError); }

}  // namespace
}  // namespace crossdock::session
