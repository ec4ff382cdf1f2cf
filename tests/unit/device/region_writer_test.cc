#include <gmock/gmock.h>

#include "crossdock/core/error.h"
#include "device/region.h"
#include "support/leftovers.h"
#include "support/message_of.h"
#include "unit/device/mappings.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::adopt;
using crossdock::testing::message_of;
using crossdock::testing::open_descriptors;
using crossdock::testing::run_in_child;
using crossdock::testing::ScopedLimit;
using ::testing::HasSubstr;

TEST(RegionWriter, AppendsAtAlignedOffsetsAndNeverAtZero) {
  RegionWriter writer("writer-test");
  EXPECT_EQ(writer.append(as_bytes("abc")), 64u);
  EXPECT_EQ(writer.size(), 67u);
  EXPECT_EQ(writer.append(as_bytes("de")), 128u);
  EXPECT_EQ(writer.append({}), 192u);
  const std::string large(100'000, 'z');
  EXPECT_EQ(writer.append(as_bytes(large)), 192u);
  const auto region = writer.freeze();
  EXPECT_EQ(region->kind(), RegionKind::kFrozen);
  EXPECT_EQ(region->data(), nullptr);
  EXPECT_EQ(region->size(), align_up(192 + 100'000, 64));
  const auto view = adopt(*region);
  EXPECT_EQ(as_text({view->data() + 64, 3}), "abc");
  EXPECT_EQ(as_text({view->data() + 128, 2}), "de");
  EXPECT_EQ(as_text({view->data() + 192, large.size()}), large);
  // Padding is zero.
  EXPECT_EQ(as_text({view->data() + 67, 61}), std::string(61, '\0'));
  EXPECT_EQ(as_text({view->data(), 64}), std::string(64, '\0'));
}

TEST(RegionWriter, MakesARegionWithoutHolesOfAnySize) {
  for (const std::size_t size : {0, 1, 63, 64, 4031, 4032, 4033, 4096, 8191, 1'000'000}) {
    RegionWriter writer("writer-test");
    writer.append(as_bytes(std::string(size, 'x')));
    writer.append({});
    const auto region = writer.freeze();
    EXPECT_NO_THROW(adopt(*region)) << size;
  }
}

TEST(RegionWriter, NothingAppendedStillMakesARegion) {
  RegionWriter writer("writer-test");
  const auto region = writer.freeze();
  EXPECT_EQ(region->size(), 64u);
  EXPECT_EQ(adopt(*region)->size(), 64u);
}

TEST(RegionWriter, IsEmptyAfterFreezing) {
  RegionWriter writer("writer-test");
  writer.append(as_bytes("first"));
  const auto first = writer.freeze();
  EXPECT_EQ(writer.size(), 64u);
  EXPECT_EQ(writer.append(as_bytes("other")), 64u);
  const auto second = writer.freeze();
  EXPECT_EQ(as_text({adopt(*first)->data() + 64, 5}), "first");
  EXPECT_EQ(as_text({adopt(*second)->data() + 64, 5}), "other");
}

TEST(RegionWriter, WhatItFroseCantBeChangedByAnyone) {
  RegionWriter writer("writer-test");
  writer.append(as_bytes(std::string(10'000, 'x')));
  const auto region = writer.freeze();
  EXPECT_EQ(::fcntl(region->descriptor(), F_GETFL) & O_ACCMODE, O_RDONLY);
  const UniqueFd writable(
      ::open(("/proc/self/fd/" + std::to_string(region->descriptor())).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writable) << "the seals, not the mode, must refuse";
  const int fd = writable.get();
  EXPECT_EQ(::pwrite(fd, "y", 1, 64), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd, 64), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd, 1 << 20), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
  // A view can't be made writable afterwards.
  const auto view = adopt(*region);
  EXPECT_EQ(::mprotect(const_cast<std::byte*>(view->data()), 4096, PROT_READ | PROT_WRITE), -1);
}

TEST(RegionWriter, StaysReadableInAForkedChild) {
  RegionWriter writer("writer-test");
  writer.append(as_bytes("hello"));
  const auto view = adopt(*writer.freeze());
  EXPECT_EQ(run_in_child([&] {
              if (as_text({view->data() + 64, 5}) != "hello") ::_exit(1);
            }),
            0);
}

TEST(RegionWriter, BelongsToTheProcessThatMadeIt) {
  RegionWriter writer("writer-test");
  writer.append(as_bytes("hello"));
  EXPECT_EQ(run_in_child([&] {
              try {
                writer.append(as_bytes("child"));
                ::_exit(1);
              } catch (const ForkError&) {
              }
              try {
                writer.freeze();
                ::_exit(2);
              } catch (const ForkError&) {
              }
            }),
            0);
  EXPECT_EQ(writer.append(as_bytes("parent")), 128u);
  EXPECT_EQ(as_text({adopt(*writer.freeze())->data() + 64, 5}), "hello");
}

TEST(RegionWriter, TheFileSizeLimitIsAnErrorAndNoSignal) {
  const std::string large(1 << 20, 'x');
  const ScopedLimit limit(RLIMIT_FSIZE, 1 << 16);
  RegionWriter writer("writer-test");
  EXPECT_EQ(writer.append(as_bytes("ok")), 64u);
  EXPECT_THAT(message_of<ResourceError>([&] { writer.append(as_bytes(large)); }), HasSubstr("ulimit -f"));
  EXPECT_EQ(writer.size(), 66u);
  EXPECT_EQ(writer.append(as_bytes("more")), 128u);
  EXPECT_EQ(as_text({adopt(*writer.freeze())->data() + 128, 4}), "more");
}

TEST(RegionWriter, AFailedAppendLeavesNothingBehind) {
  // The second page of the source can't be read: the write stops in the middle.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 'x', page);
  ASSERT_EQ(::mprotect(static_cast<std::byte*>(pages) + page, page, PROT_NONE), 0);
  RegionWriter writer("writer-test");
  writer.append(as_bytes("a"));
  EXPECT_THROW(writer.append({static_cast<const std::byte*>(pages), 2 * page}), SystemError);
  EXPECT_EQ(writer.size(), 65u);
  EXPECT_EQ(writer.append(as_bytes("b")), 128u);
  const auto view = adopt(*writer.freeze());
  EXPECT_EQ(view->size(), 192u);
  EXPECT_EQ(as_text({view->data() + 129, 63}), std::string(63, '\0'));
  ::munmap(pages, 2 * page);
}

TEST(RegionWriter, RefusesMoreThanAnAddressCanSay) {
  RegionWriter writer("writer-test");
  std::byte byte{};
  // Never read: it is refused by its length alone.
  EXPECT_THROW(writer.append({&byte, std::size_t{1} << 48}), ResourceError);
  EXPECT_EQ(writer.append(as_bytes("x")), 64u);
}

TEST(RegionWriter, WritesInPieces) {
  std::string large((std::size_t{130} << 20) + 5, 'x');
  for (std::size_t at = 0; at < large.size(); at += 1000) large[at] = static_cast<char>(at / 1000);
  RegionWriter writer("writer-test");
  EXPECT_EQ(writer.append(as_bytes(large)), 64u);
  const auto view = adopt(*writer.freeze());
  EXPECT_EQ(view->size(), align_up(64 + large.size(), 64));
  EXPECT_EQ(std::memcmp(view->data() + 64, large.data(), large.size()), 0);
}

TEST(RegionWriter, GivesEverythingBack) {
  const int before = open_descriptors();
  for (int i = 0; i < 100; ++i) {
    RegionWriter writer("writer-test");
    writer.append(as_bytes("x"));
    if (i % 2 == 0) adopt(*writer.freeze());
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(crossdock::testing::mappings_of("writer-test"), 0u);
}

}  // namespace
}  // namespace crossdock::device
