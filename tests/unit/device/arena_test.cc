#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <thread>

#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "device/region.h"
#include "support/leftovers.h"
#include "support/message_of.h"
#include "unit/device/mappings.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::adopt;
using crossdock::testing::mappings_of;
using crossdock::testing::message_of;
using crossdock::testing::open_descriptors;
using crossdock::testing::run_in_child;
using crossdock::testing::ScopedLimit;
using ::testing::HasSubstr;

constexpr std::uint64_t kReserve = 64 << 20;

TEST(Arena, GivesAlignedZeroedMemoryThatNeverOverlaps) {
  Arena arena(kReserve);
  std::byte* first = arena.allocate(100);
  std::byte* second = arena.allocate(1);
  std::byte* third = arena.allocate(10 << 20);
  for (const std::byte* pointer : {first, second, third}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 64, 0u);
  }
  EXPECT_EQ(second - first, 128);
  EXPECT_EQ(third - second, 64);
  EXPECT_EQ(as_text({first, 100}), std::string(100, '\0'));
  EXPECT_EQ(third[(10 << 20) - 1], std::byte{0});
  third[(10 << 20) - 1] = std::byte{1};
  EXPECT_TRUE(arena.contains(first, 100));
  EXPECT_TRUE(arena.contains(third, 10 << 20));
  EXPECT_FALSE(arena.contains(third, (10 << 20) + 1));
  EXPECT_FALSE(arena.contains(&arena, 1));
  EXPECT_EQ(arena.size(), 64u + 128 + 64 + (10 << 20));
  EXPECT_FALSE(arena.frozen());
}

TEST(Arena, SizeZeroGivesAPointerInside) {
  Arena arena(kReserve);
  std::byte* nothing = arena.allocate(0);
  EXPECT_TRUE(arena.contains(nothing, 1));
  EXPECT_NE(arena.allocate(0), nothing);
}

TEST(Arena, KeepsItsDataAtTheSameAddressWhenFrozen) {
  Arena arena(kReserve);
  auto* text = arena.allocate(5);
  std::memcpy(text, "hello", 5);
  const auto region = arena.freeze();
  EXPECT_TRUE(arena.frozen());
  EXPECT_EQ(region->kind(), RegionKind::kFrozen);
  EXPECT_EQ(as_text({text, 5}), "hello");
  EXPECT_TRUE(region->contains(text, 5));
  const auto offset = static_cast<std::uint64_t>(text - region->data());
  EXPECT_EQ(offset, 64u);
  const auto view = adopt(*region);
  EXPECT_EQ(as_text({view->data() + offset, 5}), "hello");
  EXPECT_EQ(arena.freeze(), region);
  EXPECT_TRUE(arena.contains(text, 5));
}

TEST(Arena, TakesNothingMoreOnceFrozen) {
  Arena arena(kReserve);
  arena.freeze();
  EXPECT_THAT(message_of<ArenaFrozenError>([&] { arena.allocate(1); }), HasSubstr("make a new one"));
}

TEST(Arena, WritingThroughAKeptViewIsACrash) {
  Arena arena(kReserve);
  auto* kept = arena.allocate(5);
  *kept = std::byte{1};
  arena.freeze();
  EXPECT_EQ(run_in_child([&] { *static_cast<volatile std::byte*>(kept) = std::byte{2}; }), -SIGSEGV);
  EXPECT_EQ(*kept, std::byte{1});
  EXPECT_EQ(::mprotect(kept - 64, 4096, PROT_READ | PROT_WRITE), -1);
}

TEST(Arena, IsSealedAgainstEveryWriter) {
  Arena arena(kReserve);
  arena.allocate(10'000);
  const auto region = arena.freeze();
  EXPECT_EQ(::fcntl(region->descriptor(), F_GETFL) & O_ACCMODE, O_RDONLY);
  const UniqueFd writable(
      ::open(("/proc/self/fd/" + std::to_string(region->descriptor())).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writable);
  EXPECT_EQ(::pwrite(writable.get(), "y", 1, 64), -1);
  EXPECT_EQ(::ftruncate(writable.get(), 64), -1);
  EXPECT_EQ(::fallocate(writable.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writable.get(), 0), MAP_FAILED);
}

TEST(Arena, PagesNeverTouchedAreBackedWhenFrozen) {
  Arena arena(kReserve);
  arena.allocate(8 << 20);
  const auto region = arena.freeze();
  EXPECT_EQ(region->size(), align_up(64 + (8 << 20), 4096));
  EXPECT_NO_THROW(adopt(*region));
}

TEST(Arena, EmptyFreezesToOnePage) {
  Arena arena(kReserve);
  EXPECT_EQ(adopt(*arena.freeze())->size(), static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

TEST(Arena, GivesUnusedAddressSpaceBack) {
  mappings_of("");  // waits for what earlier tests have freed
  const auto before = crossdock::testing::address_space();
  Arena arena(std::uint64_t{1} << 36);
  arena.allocate(1);
  EXPECT_GE(crossdock::testing::address_space(), before + (rlim_t{1} << 36));
  arena.freeze();
  EXPECT_LT(crossdock::testing::address_space(), before + (rlim_t{1} << 30));
}

TEST(Arena, TheRegionOutlivesTheArena) {
  std::shared_ptr<const Region> region;
  const std::byte* text = nullptr;
  {
    Arena arena(kReserve);
    std::byte* written = arena.allocate(5);
    std::memcpy(written, "hello", 5);
    text = written;
    region = arena.freeze();
  }
  EXPECT_EQ(as_text({text, 5}), "hello");
  EXPECT_EQ(mappings_of("crossdock-arena"), 1u);
  region.reset();
  EXPECT_EQ(mappings_of("crossdock-arena"), 0u);
}

TEST(Arena, OverItsReserveIsAnErrorThatSaysWhatIsLeft) {
  Arena arena(4096);
  EXPECT_THAT(message_of<ResourceError>([&] { arena.allocate(1 << 20); }), HasSubstr("larger `reserve`"));
  EXPECT_THROW(arena.allocate(UINT64_MAX), ResourceError);
  EXPECT_THROW(arena.allocate(UINT64_MAX - 63), ResourceError);
  std::memset(arena.allocate(4096), 1, 4096);
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) arena.allocate(64);
      },
      ResourceError);
  EXPECT_NO_THROW(adopt(*arena.freeze()));
}

TEST(Arena, RefusesAnAbsurdReserve) { EXPECT_THROW(Arena(UINT64_MAX), InvalidArgumentError); }

TEST(Arena, HooksRunBeforeItFreezesWithNoLockHeld) {
  Arena arena(kReserve);
  std::byte* data = arena.allocate(1);
  int calls = 0;
  arena.on_freeze([&] {
    ++calls;
    EXPECT_FALSE(arena.frozen());
    *data = std::byte{1};
    EXPECT_EQ(arena.size(), 128u);
    EXPECT_THROW(arena.allocate(1), ArenaFrozenError);
  });
  arena.freeze();
  arena.freeze();
  EXPECT_EQ(calls, 1);
  arena.on_freeze([&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(Arena, AHookThatThrowsLeavesItUsable) {
  Arena arena(kReserve);
  bool fail = true;
  arena.on_freeze([&] {
    if (fail) throw InvalidArgumentError("not now");
  });
  EXPECT_THROW(arena.freeze(), InvalidArgumentError);
  EXPECT_FALSE(arena.frozen());
  *arena.allocate(1) = std::byte{1};
  fail = false;
  EXPECT_NO_THROW(adopt(*arena.freeze()));
}

TEST(Arena, FreezingWithoutDescriptorsLeavesItUsable) {
  Arena arena(kReserve);
  *arena.allocate(1) = std::byte{1};
  {
    const ScopedLimit limit(RLIMIT_NOFILE, 3);
    EXPECT_THROW(arena.freeze(), ResourceError);
  }
  *arena.allocate(8 << 20) = std::byte{2};
  EXPECT_NO_THROW(adopt(*arena.freeze()));
}

TEST(Arena, AnotherWriterIsNamedAndFreezingCanBeTriedAgain) {
  Arena arena(kReserve);
  std::byte* data = arena.allocate(1);
  // Finds the arena's descriptor, as a process that inherited it could.
  void* other = MAP_FAILED;
  for (int fd = 3; fd < 256 && other == MAP_FAILED; ++fd) {
    char target[64] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), target, sizeof target - 1) < 0) continue;
    if (std::strstr(target, "crossdock-arena") == nullptr) continue;
    other = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_THAT(message_of<SystemError>([&] { arena.freeze(); }), HasSubstr("writable mapping"));
  EXPECT_FALSE(arena.frozen());
  EXPECT_THROW(arena.allocate(1), ArenaFrozenError);
  EXPECT_EQ(*data, std::byte{0});
  ASSERT_EQ(::munmap(other, 4096), 0);
  EXPECT_NO_THROW(adopt(*arena.freeze()));
}

TEST(Arena, IsKeptFromAForkedChildUntilFrozen) {
  Arena arena(kReserve);
  std::byte* data = arena.allocate(5);
  std::memcpy(data, "hello", 5);
  EXPECT_EQ(run_in_child([&] { *static_cast<volatile std::byte*>(data) = std::byte{1}; }), -SIGSEGV);
  EXPECT_EQ(run_in_child([&] {
              for (const auto& call :
                   {std::function<void()>([&] { arena.allocate(1); }), std::function<void()>([&] { arena.freeze(); }),
                    std::function<void()>([&] { arena.on_freeze([] {}); })}) {
                try {
                  call();
                  ::_exit(1);
                } catch (const ForkError&) {
                }
              }
            }),
            0);
  const auto region = arena.freeze();
  EXPECT_EQ(run_in_child([&] {
              if (as_text({data, 5}) != "hello") ::_exit(1);
              if (arena.freeze() != region) ::_exit(2);
            }),
            0);
}

TEST(Arena, AChildThatDropsItHarmsNobody) {
  auto arena = std::make_unique<Arena>(kReserve);
  std::byte* data = arena->allocate(5);
  EXPECT_EQ(run_in_child([&] {
              void* other = ::mmap(data - 64, 4096, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              if (other != data - 64) ::_exit(1);
              arena.reset();
              *static_cast<volatile char*>(other) = 1;
            }),
            0);
  *data = std::byte{1};
  EXPECT_NO_THROW(adopt(*arena->freeze()));
}

TEST(Arena, ReservesLessWhereAddressSpaceIsLimited) {
  const ScopedLimit limit(RLIMIT_AS, crossdock::testing::address_space() + (rlim_t{512} << 20));
  Arena arena;
  *arena.allocate(1) = std::byte{1};
  EXPECT_THAT(message_of<ResourceError>([] { Arena too_large(std::uint64_t{1} << 33); }), HasSubstr("ulimit -v"));
}

TEST(Arena, TheFileSizeLimitIsAnErrorAndNoSignal) {
  const ScopedLimit limit(RLIMIT_FSIZE, 2 << 20);
  Arena arena(kReserve);
  *arena.allocate(1) = std::byte{1};
  EXPECT_THROW(arena.allocate(8 << 20), ResourceError);
  EXPECT_NO_THROW(adopt(*arena.freeze()));
}

TEST(Arena, ManyThreadsGetMemoryOfTheirOwn) {
  Arena arena(kReserve);
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  std::vector<std::vector<std::byte*>> got(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&arena, &mine = got[static_cast<std::size_t>(t)], t] {
      for (int i = 0; i < kEach; ++i) {
        mine.push_back(arena.allocate(static_cast<std::uint64_t>(i % 300)));
        *mine.back() = static_cast<std::byte>(t + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::byte*> all;
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (std::byte* pointer : got[t]) {
      EXPECT_EQ(*pointer, static_cast<std::byte>(t + 1));
      all.insert(pointer);
    }
  }
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kThreads * kEach));
}

TEST(Arena, IsFrozenOnceByManyThreads) {
  Arena arena(kReserve);
  arena.allocate(100);
  std::vector<std::shared_ptr<const Region>> regions(4);
  std::vector<std::thread> threads;
  for (auto& region : regions) threads.emplace_back([&] { region = arena.freeze(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& region : regions) EXPECT_EQ(region, regions.front());
  EXPECT_NE(regions.front(), nullptr);
}

TEST(Arena, GivesEverythingBack) {
  const int before = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    Arena arena(kReserve);
    *arena.allocate(10) = std::byte{1};
    if (i % 2 == 0) arena.freeze();
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(mappings_of("crossdock-arena"), 0u);
}

TEST(ArenaCopyOnWrite, StaysWritableAndTheRegionStaysAsItWas) {
  auto arena = std::make_unique<Arena>(1 << 20, Arena::Frozen::kCopyOnWrite);
  std::byte* const memory = arena->allocate(100000);
  std::memset(memory, 1, 100000);
  std::shared_ptr<const Region> region = arena->freeze();
  EXPECT_TRUE(arena->frozen());
  EXPECT_EQ(arena->offset_of(memory), 64u);
  std::memset(memory, 2, 50000);
  const std::shared_ptr<const Region> received = adopt(*region);
  for (const auto& seen : {region, received}) {
    EXPECT_EQ(seen->data()[64], std::byte{1});
    EXPECT_EQ(seen->data()[64 + 99999], std::byte{1});
  }
  EXPECT_EQ(memory[0], std::byte{2});
  EXPECT_EQ(memory[99999], std::byte{1});
  EXPECT_EQ(run_in_child([&] {
              memory[0] = std::byte{3};
              if (memory[99999] != std::byte{1}) ::_exit(1);
            }),
            0);
  EXPECT_EQ(memory[0], std::byte{2});
  region.reset();
  EXPECT_EQ(memory[0], std::byte{2}) << "the memory is the arena's";
  arena.reset();
  EXPECT_EQ(received->data()[64], std::byte{1});
}

TEST(ArenaCopyOnWrite, FreesItsMemoryWithItself) {
  const std::size_t before = mappings_of("crossdock-arena");
  {
    Arena arena(1 << 20, Arena::Frozen::kCopyOnWrite);
    arena.allocate(1000);
    arena.freeze();
    EXPECT_EQ(mappings_of("crossdock-arena"), before + 2);
  }
  EXPECT_EQ(mappings_of("crossdock-arena"), before);
}

}  // namespace
}  // namespace crossdock::device
