#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "crossdock/core/error.h"
#include "transport/body_memory.h"

namespace crossdock::transport {
namespace {

std::size_t resident_pages(const std::byte* at, std::size_t size) {
  std::vector<unsigned char> pages(size / 4096);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(at), size, pages.data()), 0);
  std::size_t count = 0;
  for (const unsigned char page : pages) count += page & 1;
  return count;
}

TEST(BodyPool, GivesAlignedMemoryOfItsOwn) {
  const auto pool = make_body_pool();
  std::set<const void*> seen;
  std::vector<std::shared_ptr<std::byte>> bodies;
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{1} << 20}) {
    bodies.push_back(pool->allocate(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bodies.back().get()) % 64, 0u);
    EXPECT_TRUE(seen.insert(bodies.back().get()).second);
    std::memset(bodies.back().get(), 7, size);
  }
}

TEST(BodyPool, UsesMemoryAgainWithItsPages) {
  const auto pool = make_body_pool();
  constexpr std::size_t kSize = 1 << 20;
  auto body = pool->allocate(kSize);
  const std::byte* const first = body.get();
  std::memset(body.get(), 1, kSize);
  body.reset();
  body = pool->allocate(kSize - 100);
  EXPECT_EQ(body.get(), first);
  EXPECT_EQ(resident_pages(first, kSize), kSize / 4096);
  EXPECT_NE(pool->allocate(kSize).get(), first) << "it is out";
}

TEST(BodyPool, TakesNoPagesBeforeTheBytesCome) {
  const auto pool = make_body_pool();
  // A length that a peer made up. More than the machine has left is refused at once.
  const auto body = pool->allocate(1 << 30);
  std::memset(body.get(), 1, 8192);
  EXPECT_EQ(resident_pages(body.get(), 1 << 20), 2u);
}

TEST(BodyPool, RefusesMoreThanTheMachineHas) {
  EXPECT_THROW(make_body_pool()->allocate(std::uint64_t{1} << 50), ResourceError);
}

TEST(BodyPool, DoesntSpendALargeBodyOnASmallOne) {
  const auto pool = make_body_pool();
  const std::byte* large = nullptr;
  {
    const auto body = pool->allocate(16 << 20);
    large = body.get();
  }
  EXPECT_NE(pool->allocate(1000).get(), large);
  EXPECT_EQ(pool->allocate(12 << 20).get(), large);
}

TEST(BodyPool, KeepsWithinItsLimitButAlwaysTheLast) {
  const auto pool = make_body_pool(1 << 20);
  const std::byte* last = nullptr;
  {
    std::vector<std::shared_ptr<std::byte>> bodies;
    for (int i = 0; i < 8; ++i) bodies.push_back(pool->allocate(512 << 10));
    while (!bodies.empty()) bodies.pop_back();
    const auto huge = pool->allocate(8 << 20);
    last = huge.get();
  }
  EXPECT_EQ(pool->allocate(8 << 20).get(), last);
}

TEST(BodyPool, OfAPeerKeepsNothingOverItsLimit) {
  const auto pool = make_body_pool(1 << 20, LargeBodies::kFree);
  const auto kept_after = [&](std::uint64_t size) {
    const std::byte* at = nullptr;
    {
      const auto body = pool->allocate(size);
      std::memset(body.get(), 1, size);
      at = body.get();
    }
    unsigned char page = 0;
    return ::mincore(const_cast<std::byte*>(at), 4096, &page) == 0;  // ENOMEM: it is no longer mapped
  };
  EXPECT_TRUE(kept_after(512 << 10));
  EXPECT_FALSE(kept_after(8 << 20));
}

TEST(BodyPool, BodiesOutliveItOnAnyThread) {
  auto pool = make_body_pool();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([pool, i] {
      for (int round = 0; round < 1000; ++round) {
        const auto body = pool->allocate(static_cast<std::uint64_t>(1000 * (i + 1)));
        std::memset(body.get(), i, static_cast<std::size_t>(1000 * (i + 1)));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto kept = pool->allocate(100);
  pool.reset();
  std::memset(kept.get(), 1, 100);
  EXPECT_EQ(kept.get()[99], std::byte{1});
}

TEST(BodyPool, NamesALackOfAddressSpace) {
  EXPECT_THROW(make_body_pool()->allocate(std::uint64_t{1} << 50), ResourceError);
}

}  // namespace
}  // namespace crossdock::transport
