#include "crossdock/device/pool.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "crossdock/core/error.h"
#include "device/region.h"
#include "support/leftovers.h"
#include "support/message_of.h"
#include "unit/device/mappings.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::address_space;
using crossdock::testing::mappings_of;
using crossdock::testing::message_of;
using crossdock::testing::open_descriptors;
using crossdock::testing::run_in_child;
using crossdock::testing::ScopedLimit;
using ::testing::HasSubstr;

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

void fill(std::byte* memory, int value, std::uint64_t size) { std::memset(memory, value, size); }

bool all(const std::byte* memory, int value, std::uint64_t size) {
  return std::all_of(memory, memory + size, [value](std::byte byte) { return byte == std::byte(value); });
}

/// What a consumer maps of a lease, at the first byte that was lent.
struct Received {
  explicit Received(const Pool::Lease& lease)
      : region(Region::adopt(UniqueFd(::dup(lease.region->descriptor())), RegionKind::kRecycled, lease.region->size(),
                             {}, "a lease")),
        data(region->data() + lease.offset) {}
  std::shared_ptr<const Region> region;
  const std::byte* data;
};

TEST(Pool, UsesMemoryAgain) {
  const auto pool = Pool::make();
  const std::byte* first = nullptr;
  {
    const auto memory = pool->allocate(kMebibyte);
    first = memory.get();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    fill(memory.get(), 1, kMebibyte);
    EXPECT_EQ(pool->stats().idle_bytes, 0u);
  }
  EXPECT_EQ(pool->stats().idle_bytes, pool->stats().bytes);
  const auto again = pool->allocate(kMebibyte);
  EXPECT_EQ(again.get(), first);
  EXPECT_TRUE(all(again.get(), 1, kMebibyte)) << "the same pages";
  const auto other = pool->allocate(kMebibyte);
  EXPECT_NE(other.get(), first);
  const PoolStats stats = pool->stats();
  EXPECT_EQ(stats.blocks, 2u);
  EXPECT_EQ(stats.made, 2u);
  EXPECT_EQ(stats.reused, 1u);
}

TEST(Pool, WastesAnEighthAtMostAndNothingOfAPowerOfTwo) {
  for (const std::uint64_t size : {kMebibyte - 1, kMebibyte, kMebibyte + 1, 9 * kMebibyte / 8, 100 * kMebibyte / 64}) {
    const auto pool = Pool::make();
    const auto memory = pool->allocate(size);
    EXPECT_LE(pool->stats().bytes, size + size / 8 + 4096) << size;
    EXPECT_GE(pool->stats().bytes, size + 64) << size;
  }
  const auto pool = Pool::make();
  const auto memory = pool->allocate(kMebibyte);
  EXPECT_EQ(pool->stats().bytes, kMebibyte + 4096);
}

TEST(Pool, TakesABlockOfNearlyTheSizeAndNoneThatIsMuchLarger) {
  const auto pool = Pool::make();
  const std::byte* large = pool->allocate(kMebibyte).get();
  EXPECT_EQ(pool->allocate(7 * kMebibyte / 8).get(), large);
  EXPECT_NE(pool->allocate(kMebibyte / 2).get(), large);
  EXPECT_NE(pool->allocate(2 * kMebibyte).get(), large);
}

TEST(Pool, AllocatesNothingAndTheSmallest) {
  const auto pool = Pool::make();
  const auto none = pool->allocate(0);
  const auto one = pool->allocate(1);
  EXPECT_NE(none, nullptr);
  EXPECT_NE(none, one);
  *one = std::byte{7};
}

TEST(Pool, ClearsMemoryWhereZerosAreAskedFor) {
  const auto pool = Pool::make();
  std::byte* memory = pool->allocate_unowned(kMebibyte, Pool::Content::kZeros);
  EXPECT_TRUE(all(memory, 0, kMebibyte));
  fill(memory, 1, kMebibyte);
  EXPECT_TRUE(pool->free(memory));
  std::byte* again = pool->allocate_unowned(kMebibyte, Pool::Content::kZeros);
  EXPECT_EQ(again, memory);
  EXPECT_TRUE(all(again, 0, kMebibyte));
  EXPECT_TRUE(pool->free(again));
}

TEST(Pool, FreesItsOwnMemoryOnceAndNoOther) {
  const auto pool = Pool::make();
  const auto other_pool = Pool::make();
  std::byte* memory = pool->allocate_unowned(kMebibyte);
  const auto other = other_pool->allocate(kMebibyte);
  std::vector<std::byte> heap(kMebibyte);
  EXPECT_FALSE(pool->free(heap.data()));
  EXPECT_FALSE(pool->free(nullptr));
  EXPECT_FALSE(pool->free(memory + 1));
  EXPECT_FALSE(pool->free(memory + 4096)) << "aligned as the start of a block is";
  EXPECT_FALSE(pool->free(other.get()));
  EXPECT_FALSE(pool->size_of(other.get()));
  EXPECT_GE(pool->size_of(memory).value(), kMebibyte);
  EXPECT_TRUE(pool->contains(memory, kMebibyte));
  EXPECT_TRUE(pool->contains(memory + kMebibyte - 1, 1));
  EXPECT_FALSE(pool->contains(memory - 1, 1));
  EXPECT_FALSE(pool->contains(memory, 2 * kMebibyte));
  EXPECT_FALSE(pool->contains(memory + 1, UINT64_MAX));
  EXPECT_TRUE(pool->free(memory));
  EXPECT_FALSE(pool->free(memory));
  EXPECT_FALSE(pool->contains(memory, 1)) << "it is idle";
}

TEST(Pool, LendsWhatItsOwnerCanGoOnWritingTo) {
  const auto pool = Pool::make();
  const auto memory = pool->allocate(kMebibyte);
  fill(memory.get(), 1, kMebibyte);
  const auto lease = pool->lend(memory.get() + 128, 1000);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->region->kind(), RegionKind::kRecycled);
  EXPECT_EQ(lease->offset, 64u + 128u);
  EXPECT_EQ(pool->stats().lent_bytes, pool->stats().bytes);
  const Received received(*lease);
  fill(memory.get(), 2, kMebibyte);
  EXPECT_TRUE(all(memory.get(), 2, kMebibyte)) << "its owner sees its own writes";
  EXPECT_TRUE(all(received.data, 1, 1000)) << "a consumer sees none";
  EXPECT_TRUE(all(lease->region->data() + lease->offset, 1, 1000)) << "nor does a server that sends it by value";
}

TEST(Pool, LendsWithPagesThatWereNeverWritten) {
  const auto pool = Pool::make();
  std::byte* memory = pool->allocate_unowned(kMebibyte, Pool::Content::kZeros);
  const auto lease = pool->lend(memory, kMebibyte);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(all(Received(*lease).data, 0, kMebibyte)) << "a consumer refuses memory with holes";
  EXPECT_TRUE(pool->free(memory));
}

TEST(Pool, LendsAgainWhatNobodyHasWrittenTo) {
  const auto pool = Pool::make();
  const auto memory = pool->allocate(kMebibyte);
  fill(memory.get(), 1, kMebibyte);
  const auto first = pool->lend(memory.get(), kMebibyte);
  EXPECT_TRUE(all(memory.get(), 1, kMebibyte)) << "reading isn't writing";
  const auto second = pool->lend(memory.get(), kMebibyte);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->region, first->region);
  memory.get()[kMebibyte / 2] = std::byte{2};
  EXPECT_FALSE(pool->lend(memory.get(), kMebibyte)) << "a page differs from the region";
  EXPECT_TRUE(pool->lend(memory.get(), kMebibyte / 4)) << "these pages don't";
  EXPECT_FALSE(pool->lend(memory.get() + kMebibyte / 2 + 1, 1)) << "a byte of the page that does";
  EXPECT_TRUE(pool->lend(memory.get() + kMebibyte / 2, 0));
}

TEST(Pool, WaitsForReadersBeforeMemoryIsUsedAgain) {
  const auto pool = Pool::make();
  auto memory = pool->allocate(kMebibyte);
  std::byte* const at = memory.get();
  fill(at, 1, kMebibyte);
  auto first = pool->lend(at, kMebibyte);
  auto second = pool->lend(at, kMebibyte);
  fill(at, 2, kMebibyte / 2);
  memory.reset();
  EXPECT_FALSE(pool->contains(at, 1));
  EXPECT_NE(pool->allocate(kMebibyte).get(), at);
  first.reset();
  EXPECT_TRUE(all(second->region->data() + second->offset, 1, kMebibyte));
  pool->trim();
  EXPECT_EQ(pool->stats().blocks, 1u);
  second.reset();
  EXPECT_EQ(pool->stats().idle_bytes, pool->stats().bytes);
  const auto again = pool->allocate(kMebibyte);
  EXPECT_EQ(again.get(), at) << "the same addresses";
  fill(again.get(), 3, kMebibyte);
  const auto lease = pool->lend(again.get(), kMebibyte);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(all(Received(*lease).data, 3, kMebibyte)) << "writes go to shared memory again";
}

TEST(Pool, CopiesNoPageToLendAndToUseAgain) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer has pages of its own for each page";
#endif
  const auto pool = Pool::make();
  auto memory = pool->allocate(16 * kMebibyte);
  fill(memory.get(), 1, 16 * kMebibyte);
  const auto faults = [] {
    struct rusage usage {};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  auto lease = pool->lend(memory.get(), 16 * kMebibyte);
  memory.reset();
  lease.reset();
  EXPECT_EQ(pool->stats().idle_bytes, pool->stats().bytes);
  EXPECT_EQ(pool->stats().blocks, 1u);
  memory = pool->allocate(16 * kMebibyte);
  const long before = faults();
  fill(memory.get(), 2, 16 * kMebibyte);
  EXPECT_LT(faults() - before, 16) << "of 4096 pages: they are still mapped";
}

/// From here on mremap() can't leave the old mapping where it is, as before Linux 5.13.
void forbid_dontunmap() {
  crossdock::testing::filter_system_calls({
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + 3 * sizeof(std::uint64_t)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  });
}

TEST(Pool, LendsAndUsesMemoryAgainOnOlderKernels) {
  EXPECT_EQ(run_in_child([] {
              forbid_dontunmap();
              const auto pool = Pool::make();
              auto memory = pool->allocate(kMebibyte);
              std::byte* const at = memory.get();
              fill(at, 1, kMebibyte);
              auto lease = pool->lend(at, kMebibyte);
              fill(at, 2, kMebibyte);
              if (!all(Received(*lease).data, 1, kMebibyte) || !all(at, 2, kMebibyte)) ::_exit(1);
              memory.reset();
              lease.reset();
              memory = pool->allocate(kMebibyte);
              if (memory.get() != at || pool->stats().made != 1) ::_exit(2);
              fill(at, 3, kMebibyte);
              lease = pool->lend(at, kMebibyte);
              if (!all(Received(*lease).data, 3, kMebibyte)) ::_exit(3);
            }),
            0);
}

TEST(Pool, KeepsWritesThatAnotherThreadDoesMeanwhile) {
  const auto pool = Pool::make();
  const auto memory = pool->allocate(kMebibyte);
  fill(memory.get(), 0, kMebibyte);
  auto* const numbers = reinterpret_cast<std::uint64_t*>(memory.get());
  constexpr std::size_t kNumbers = kMebibyte / sizeof(std::uint64_t);
  std::atomic<bool> stop{false};
  std::uint64_t rounds = 0;
  std::thread writer([&] {
    do {
      ++rounds;
      for (std::size_t i = 0; i < kNumbers; ++i) ++std::atomic_ref(numbers[i]);
    } while (!stop);
  });
  std::vector<Pool::Lease> leases;
  for (int i = 0; i < 20; ++i) {
    if (auto lease = pool->lend(numbers + kNumbers - 1, 8)) leases.push_back(*std::move(lease));
    std::this_thread::yield();
  }
  stop = true;
  writer.join();
  EXPECT_TRUE(std::all_of(numbers, numbers + kNumbers, [&](std::uint64_t number) { return number == rounds; }));
}

TEST(Pool, IsFreedWithTheLastOfItsMemoryAndLeases) {
  EXPECT_EQ(mappings_of("crossdock-pool"), 0u) << "what earlier tests freed is gone";
  const int descriptors = open_descriptors();
  auto pool = Pool::make();
  auto memory = pool->allocate(kMebibyte);
  auto lease = pool->lend(memory.get(), kMebibyte);
  const std::weak_ptr<Pool> watched = pool;
  pool.reset();
  memory.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_TRUE(all(lease->region->data() + 64, 0, kMebibyte));
  lease.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(mappings_of("crossdock-pool"), 0u);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(Pool, KeepsItsLimitAndFreesIdleMemoryForIt) {
  const auto pool = Pool::make({.limit = 4 * kMebibyte});
  auto first = pool->allocate(kMebibyte);
  auto second = pool->allocate(2 * kMebibyte);
  EXPECT_THAT(message_of<ResourceError>([&] { pool->allocate(kMebibyte); }), HasSubstr("limit is 4194304 bytes"));
  EXPECT_THROW(pool->allocate(5 * kMebibyte), ResourceError);
  EXPECT_THROW(pool->allocate(UINT64_MAX), ResourceError);
  EXPECT_EQ(pool->stats().blocks, 2u);
  first.reset();
  EXPECT_NO_THROW(pool->allocate(kMebibyte * 3 / 2)) << "the idle block makes room";
  EXPECT_LE(pool->stats().bytes, 4 * kMebibyte);
}

TEST(Pool, KeepsAsMuchIdleMemoryAsItMay) {
  constexpr std::uint64_t kBlock = kMebibyte + 4096;
  const auto pool = Pool::make({.idle = 2 * kBlock});
  std::vector<std::shared_ptr<std::byte>> all;
  for (int i = 0; i < 4; ++i) all.push_back(pool->allocate(kMebibyte));
  std::byte* const last = all[3].get();
  for (auto& memory : all) memory.reset();
  EXPECT_EQ(pool->stats().idle_bytes, 2 * kBlock);
  EXPECT_EQ(mappings_of("crossdock-pool"), 2u);
  EXPECT_EQ(pool->allocate(kMebibyte).get(), last) << "what was freed last is used first";
  EXPECT_EQ(pool->trim(kBlock), kBlock);
  EXPECT_EQ(pool->trim(), kBlock);
  EXPECT_EQ(pool->stats().bytes, 0u);
  EXPECT_EQ(mappings_of("crossdock-pool"), 0u);
}

TEST(Pool, KeepsNoIdleMemoryOnceClosed) {
  const auto pool = Pool::make();
  auto memory = pool->allocate(kMebibyte);
  pool->allocate(kMebibyte);
  pool->close();
  EXPECT_EQ(pool->stats().blocks, 1u);
  fill(memory.get(), 1, kMebibyte);
  memory.reset();
  EXPECT_EQ(pool->stats().blocks, 0u);
}

TEST(Pool, SaysWhatIsMissingAndStaysAsItWas) {
  const auto pool = Pool::make();
  const auto memory = pool->allocate(kMebibyte);
  fill(memory.get(), 1, kMebibyte);
  {
    const ScopedLimit limit(RLIMIT_NOFILE, 3);
    EXPECT_THROW(pool->allocate(kMebibyte), Error);
  }
  {
    const ScopedLimit limit(RLIMIT_AS, address_space() + kMebibyte / 2);
    EXPECT_THAT(message_of<ResourceError>([&] { pool->allocate(kMebibyte); }), HasSubstr("ulimit -v"));
    EXPECT_THROW(pool->lend(memory.get(), kMebibyte), ResourceError);
    fill(memory.get(), 2, kMebibyte);
  }
  EXPECT_EQ(pool->stats().blocks, 1u);
  EXPECT_EQ(pool->stats().lent_bytes, 0u);
  const auto lease = pool->lend(memory.get(), kMebibyte);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(all(Received(*lease).data, 2, kMebibyte));
}

TEST(PoolFork, BothProcessesHaveTheMemoryAsItWasEachWithItsOwnWrites) {
  const auto pool = Pool::make();
  auto memory = pool->allocate(kMebibyte);
  std::byte* const at = memory.get();
  fill(at, 1, kMebibyte);
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  std::thread parent;
  const pid_t child = ::fork();
  if (child == 0) {
    std::byte signal{};
    bool right = ::read(go[0], &signal, 1) == 1;
    right = right && all(at, 1, kMebibyte);  // the parent has written meanwhile
    fill(at, 3, kMebibyte / 2);
    right = right && all(at, 3, kMebibyte / 2) && all(at + kMebibyte / 2, 1, kMebibyte / 2);
    ::_exit(right ? 0 : 1);
  }
  fill(at, 2, kMebibyte);
  EXPECT_EQ(::write(go[1], "g", 1), 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(all(at, 2, kMebibyte));
  ::close(go[0]);
  ::close(go[1]);
  EXPECT_FALSE(pool->lend(at, kMebibyte)) << "it was written to";
  memory.reset();
  EXPECT_EQ(pool->stats().blocks, 0u) << "a child might read it still";
  EXPECT_EQ(mappings_of("crossdock-pool"), 0u);
}

TEST(PoolFork, TheChildCanFreeAndAllocateAndForkAgain) {
  const auto pool = Pool::make();
  std::byte* const memory = pool->allocate_unowned(kMebibyte);
  fill(memory, 1, kMebibyte);
  pool->allocate(kMebibyte);  // is idle
  const auto work = [&] {
    const auto check = [](bool right, int code) {
      if (!right) ::_exit(code);
    };
    check(pool->stats().blocks == 1, 1);
    check(mappings_of("crossdock-pool") == 1, 2);
    check(all(memory, 1, kMebibyte), 3);
    check(!pool->lend(memory, kMebibyte), 4);  // copy it
    auto fresh = pool->allocate(kMebibyte);
    fill(fresh.get(), 5, kMebibyte);
    check(run_in_child([&] { check(all(memory, 1, kMebibyte) && all(fresh.get(), 5, kMebibyte), 50); }) == 0, 5);
    check(pool->lend(fresh.get(), kMebibyte).has_value(), 6);
    check(pool->free(memory), 7);
    check(!pool->contains(memory, 1), 8);
    fresh.reset();
    check(pool->stats().blocks == 0, 9);
    check(mappings_of("crossdock-pool") == 0, 10);
  };
  EXPECT_EQ(run_in_child(work), 0);
  EXPECT_TRUE(pool->free(memory));
}

TEST(PoolFork, LeasesOfTheParentStayWithTheParent) {
  const auto pool = Pool::make();
  auto memory = pool->allocate(kMebibyte);
  fill(memory.get(), 1, kMebibyte);
  auto lease = pool->lend(memory.get(), kMebibyte);
  EXPECT_EQ(run_in_child([&] {
              lease.reset();
              memory.reset();
              if (pool->stats().blocks != 0) ::_exit(1);
            }),
            0);
  EXPECT_TRUE(all(Received(*lease).data, 1, kMebibyte));
  EXPECT_TRUE(pool->lend(memory.get(), kMebibyte)) << "nobody has written to it";
  memory.reset();
  EXPECT_EQ(pool->stats().blocks, 1u);
  lease.reset();
  EXPECT_EQ(pool->stats().blocks, 0u);
}

TEST(PoolFork, WaitsForThreadsThatAreInAPool) {
  const auto pool = Pool::make();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const auto memory = pool->allocate(64 << 10);
        *memory = std::byte{1};
        const auto lease = pool->lend(memory.get(), 1);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(run_in_child([&] {
                const auto memory = pool->allocate(64 << 10);
                fill(memory.get(), 1, 64 << 10);
              }),
              0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace crossdock::device
