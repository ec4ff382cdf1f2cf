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

constexpr std::uint64_t kLimit = 1000;

std::shared_ptr<const PublishedTable> table_of(std::uint64_t bytes) {
  auto table = std::make_shared<PublishedTable>();
  table->bytes = bytes;
  return table;
}

/// Memory whose tables, all of 300 bytes, are kept here until they are evicted.
struct Kept {
  std::vector<std::shared_ptr<const PublishedTable>> tables;
  int asked = 0;
  std::shared_ptr<RelayMemory> memory = std::make_shared<RelayMemory>(kLimit, [this] {
    ++asked;
    if (tables.empty()) return false;
    tables.pop_back();
    return true;
  });

  void add() {
    memory->take(300, "a table");
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
  EXPECT_EQ(kept.asked, 2);
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
  for (const std::uint64_t bytes : {kLimit + 1, ~std::uint64_t{0}}) {
    EXPECT_THROW(kept.memory->take(bytes, "x"), ResourceError);
  }
  EXPECT_EQ(kept.asked, 0);
}

/// Bodies of one fetch.
struct Fetch {
  explicit Fetch(std::uint64_t expected)
      : into(std::make_shared<FetchMemory>(kept.memory, std::make_shared<device::Arena>(1 << 20), "x", expected)) {}
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
  for (const auto& [bytes, counted] : {std::pair{100U, 128U}, {500U, 500U}}) {
    Fetch fetch(200);
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

TEST(FetchMemoryTest, ATableThatTakesMoreThanThereIsIsRefused) {
  Fetch fetch(200);
  const auto table = table_of(kLimit + 1);
  EXPECT_THROW(fetch.into->keep(table), ResourceError);
  fetch.into.reset();
  EXPECT_EQ(fetch.kept.memory->used(), 0U);
}

TEST(FetchMemoryTest, FailsAtOnceWhereTheExpectedDoesntFit) { EXPECT_THROW(Fetch(kLimit + 1), ResourceError); }

}  // namespace
}  // namespace crossdock::session
