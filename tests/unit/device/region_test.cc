#include "device/region.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "device/changing_memory.h"
#include "device/memfd.h"
#include "device/private_memory.h"
#include "support/leftovers.h"
#include "support/message_of.h"
#include "unit/device/mappings.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::forbid_cachestat;
using crossdock::testing::mappings_of;
using crossdock::testing::message_of;
using crossdock::testing::open_descriptors;
using crossdock::testing::run_in_child;
using crossdock::testing::ScopedFolder;
using crossdock::testing::ScopedLimit;
using ::testing::HasSubstr;

constexpr off_t kFileBytes = 1 << 20;

constexpr int kFrozenSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
constexpr int kRecycledSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

UniqueFd memfd_of(const std::string& content, int seals) {
  UniqueFd fd(::memfd_create("region-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::pwrite(fd.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

UniqueFd reopen(int fd, int flags) {
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), flags | O_CLOEXEC));
}

UniqueFd sealed_of(const std::string& content, int seals) { return reopen(memfd_of(content, seals).get(), O_RDONLY); }

std::string refusal(UniqueFd fd, RegionKind kind, std::uint64_t size) {
  return message_of<ProtocolError>([&] { Region::adopt(std::move(fd), kind, size, {}, "region 3 of shm:/x"); });
}

TEST(RegionAdopt, MapsAFrozenMemfdAndClosesItsDescriptor) {
  const int before = open_descriptors();
  {
    const auto region = Region::adopt(sealed_of("hello", kFrozenSeals), RegionKind::kFrozen, 5, {}, "here");
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(region->kind(), RegionKind::kFrozen);
    EXPECT_EQ(region->size(), 5u);
    EXPECT_EQ(region->descriptor(), -1);
    EXPECT_EQ(region->writable(), nullptr);
    EXPECT_EQ(as_text({region->data(), 5}), "hello");
    EXPECT_NO_THROW(region->check_unchanged());
    EXPECT_EQ(mappings_of("region-test"), 1u);
  }
  EXPECT_EQ(mappings_of("region-test"), 0u);
}

TEST(RegionAdopt, TakesTheFirstAndTheLastByteAndNoMore) {
  const auto region = Region::adopt(sealed_of("hello", kFrozenSeals), RegionKind::kFrozen, 5, {}, "here");
  EXPECT_TRUE(region->contains(region->data(), 5));
  EXPECT_TRUE(region->contains(region->data() + 5, 0));
  EXPECT_FALSE(region->contains(region->data(), 6));
  EXPECT_FALSE(region->contains(region->data() + 1, 5));
  EXPECT_FALSE(region->contains(region->data() - 1, 1));
  EXPECT_FALSE(region->contains(region->data() + 1, UINT64_MAX));
  EXPECT_FALSE(region->contains(nullptr, 0));
}

TEST(RegionAdopt, NamesTheMissingSeal) {
  const std::array<std::pair<int, const char*>, 4> frozen{{{F_SEAL_SHRINK, "sealed against shrinking"},
                                                           {F_SEAL_GROW, "sealed against growing"},
                                                           {F_SEAL_WRITE, "sealed against writing"},
                                                           {F_SEAL_SEAL, "seals can still be changed"}}};
  for (const auto& [seal, text] : frozen) {
    const std::string what = refusal(sealed_of("hello", kFrozenSeals & ~seal), RegionKind::kFrozen, 5);
    EXPECT_THAT(what, HasSubstr(text));
    EXPECT_THAT(what, HasSubstr("region 3 of shm:/x"));
  }
  for (const int seal : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL}) {
    EXPECT_THAT(refusal(sealed_of("hello", kRecycledSeals & ~seal), RegionKind::kRecycled, 5), HasSubstr("seal"));
  }
  EXPECT_THAT(refusal(sealed_of("hello", 0), RegionKind::kFrozen, 5), HasSubstr("seal"));
  EXPECT_THAT(refusal(sealed_of("hello", kRecycledSeals), RegionKind::kFrozen, 5), HasSubstr("against writing"));
}

TEST(RegionAdopt, RefusesWhatIsNoMemfd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  EXPECT_THAT(refusal(UniqueFd(ends[0]), RegionKind::kFrozen, 5), HasSubstr("no seals"))
      << "nothing else was asked of it";
  ::close(ends[1]);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  EXPECT_THAT(refusal(UniqueFd(ends[0]), RegionKind::kRecycled, 5), HasSubstr("no seals"));
  ::close(ends[1]);
  ScopedFolder folder;
  const std::string path = folder.write("plain", "hello");
  EXPECT_THAT(refusal(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), RegionKind::kFrozen, 5),
              ::testing::AnyOf(HasSubstr("isn't a memfd"), HasSubstr("isn't sealed")));
  EXPECT_THAT(refusal(UniqueFd(::open(folder.path().c_str(), O_RDONLY | O_CLOEXEC)), RegionKind::kFile, 5),
              HasSubstr("isn't a regular file"));
}

TEST(RegionAdopt, RefusesADescriptorThatCantBeRead) {
  const UniqueFd memfd = memfd_of("hello", 0);
  UniqueFd write_only = reopen(memfd.get(), O_WRONLY);
  ASSERT_TRUE(write_only);
  ASSERT_EQ(::fcntl(memfd.get(), F_ADD_SEALS, kFrozenSeals), 0);
  EXPECT_THAT(refusal(std::move(write_only), RegionKind::kFrozen, 5), HasSubstr("isn't open for reading"));
  EXPECT_THAT(refusal(reopen(memfd.get(), O_PATH), RegionKind::kFrozen, 5), HasSubstr("isn't open for reading"));
}

TEST(RegionAdopt, RefusesAnotherSizeThanAnnounced) {
  EXPECT_THAT(refusal(sealed_of("hello", kFrozenSeals), RegionKind::kFrozen, 4), HasSubstr("has 5 bytes, but 4"));
  EXPECT_THAT(refusal(sealed_of("hello", kFrozenSeals), RegionKind::kFrozen, 6), HasSubstr("has 5 bytes, but 6"));
  EXPECT_THAT(refusal(sealed_of("", kFrozenSeals), RegionKind::kFrozen, 0), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal(sealed_of("hello", kFrozenSeals), RegionKind::kFrozen, (1ULL << 48) + 1), HasSubstr("2^48"));
  EXPECT_THAT(refusal(sealed_of("hello", kFrozenSeals), static_cast<RegionKind>(9), 5), HasSubstr("kind of region"));
}

TEST(RegionAdopt, RefusesASealedRegionOfHoles) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;
  UniqueFd fd = memfd_of("hello", 0);
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(kHuge)), 0);
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, kFrozenSeals), 0);
  EXPECT_THAT(refusal(reopen(fd.get(), O_RDONLY), RegionKind::kFrozen, kHuge), HasSubstr("holes"));
}

/// 1 MiB of which half is there, and as much again beyond its end, which can be freed later.
UniqueFd half_beyond_its_end(int seals) {
  UniqueFd fd(::memfd_create("region-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), kFileBytes), 0);
  EXPECT_EQ(::fallocate(fd.get(), 0, 0, kFileBytes / 2), 0);
  EXPECT_EQ(::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, kFileBytes, kFileBytes / 2), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  struct stat status {};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, kFileBytes);
  return fd;
}

/// All of its blocks are there, though no byte of them was ever written.
UniqueFd allocated(int seals) {
  UniqueFd fd(::memfd_create("region-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), kFileBytes), 0);
  EXPECT_EQ(::fallocate(fd.get(), 0, 0, kFileBytes), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(RegionAdopt, CountsNoBlocksBeyondTheEnd) {
  for (const auto& [kind, seals] :
       {std::pair{RegionKind::kFrozen, kFrozenSeals}, {RegionKind::kRecycled, kRecycledSeals}}) {
    const UniqueFd hostile = half_beyond_its_end(seals);
    EXPECT_THAT(refusal(reopen(hostile.get(), O_RDONLY), kind, kFileBytes), HasSubstr("holes"));
    // Its owner frees what lies beyond the end: sealed memory lets him.
    ASSERT_EQ(::ftruncate(hostile.get(), kFileBytes), 0);
    EXPECT_THAT(refusal(reopen(hostile.get(), O_RDONLY), kind, kFileBytes), HasSubstr("holes"));
    EXPECT_NE(Region::adopt(reopen(allocated(seals).get(), O_RDONLY), kind, kFileBytes, {}, "here"), nullptr);
  }
}

TEST(RegionAdopt, CountsNoBlocksBeyondTheEndOnOlderSystems) {
  const UniqueFd hostile = half_beyond_its_end(kFrozenSeals);
  const UniqueFd honest = allocated(kFrozenSeals);
  EXPECT_EQ(run_in_child([&] {
              forbid_cachestat();
              Region::adopt(reopen(honest.get(), O_RDONLY), RegionKind::kFrozen, kFileBytes, {}, "here");
              try {
                Region::adopt(reopen(hostile.get(), O_RDONLY), RegionKind::kFrozen, kFileBytes, {}, "here");
                ::_exit(1);
              } catch (const ProtocolError&) {
              }
            }),
            0);
}

TEST(RegionAdopt, ReadsAFileThatStaysFullOnceOnOlderSystems) {
  const UniqueFd file = allocated(kRecycledSeals);
  EXPECT_EQ(run_in_child([&] {
              forbid_cachestat();
              const auto read_by = [](const UniqueFd& which) {
                const std::uint64_t before = memfd::bytes_searched();
                Region::adopt(reopen(which.get(), O_RDONLY), RegionKind::kRecycled, kFileBytes, {}, "here");
                return memfd::bytes_searched() - before;
              };
              if (read_by(file) != kFileBytes) ::_exit(1);
              if (read_by(file) != 0) ::_exit(2);
              if (read_by(allocated(kRecycledSeals)) != kFileBytes) ::_exit(3);
              try {
                Region::adopt(reopen(half_beyond_its_end(kRecycledSeals).get(), O_RDONLY), RegionKind::kRecycled,
                              kFileBytes, {}, "here");
                ::_exit(4);
              } catch (const ProtocolError&) {
              }
            }),
            0);
}

TEST(RegionAdopt, RefusesHugePagesOfAPool) {
  const UniqueFd fd(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  constexpr std::uint64_t kSize = 2 << 20;
  if (!fd || ::ftruncate(fd.get(), kSize) != 0) GTEST_SKIP() << "this system has no huge pages";
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, kFrozenSeals), 0);
  EXPECT_THAT(refusal(fd.duplicate(), RegionKind::kFrozen, kSize), HasSubstr("pages of ordinary size"));
}

TEST(RegionAdopt, TakesTheDescriptorOnSuccessAlone) {
  UniqueFd refused = sealed_of("hello", 0);
  EXPECT_THROW(Region::adopt(std::move(refused), RegionKind::kFrozen, 5, {}, "here"), ProtocolError);
  EXPECT_TRUE(refused) << "its caller chooses the thread that closes it";
  UniqueFd taken = sealed_of("hello", kFrozenSeals);
  const int before = open_descriptors();
  const auto region = Region::adopt(std::move(taken), RegionKind::kFrozen, 5, {}, "here");
  EXPECT_FALSE(taken);
  EXPECT_EQ(open_descriptors(), before - 1);
}

TEST(RegionAdopt, SaysThatAMappingWasRefused) {
  ScopedFolder folder;
  const std::string path = folder.write("large", "x");
  constexpr off_t kSize = off_t{1} << 32;
  ASSERT_EQ(::truncate(path.c_str(), kSize), 0);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const FileStamp stamp = FileStamp::of(fd.get());
  const int before = open_descriptors();
  const ScopedLimit limit(RLIMIT_AS, crossdock::testing::address_space() + (rlim_t{256} << 20));
  EXPECT_THAT(message_of<ResourceError>([&] { Region::adopt(std::move(fd), RegionKind::kFile, kSize, stamp, "here"); }),
              HasSubstr("ulimit -v"));
  EXPECT_THROW(Region::open_file(path), ResourceError);
  EXPECT_THROW(Region::make_recycled(kSize, "region-test"), ResourceError);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(mappings_of("region-test"), 0u);
}

TEST(RegionReadable, IsOneMappingThatOutlivesTheRegionWhereItIsHeld) {
  RegionWriter writer("region-test");
  const std::uint64_t offset = writer.append(as_bytes("content"));
  std::shared_ptr<const Region> region = writer.freeze();
  ASSERT_EQ(region->data(), nullptr);
  std::shared_ptr<const Region> mapped = readable(region, "a test");
  EXPECT_EQ(readable(region, "a test"), mapped);
  EXPECT_EQ(readable(mapped, "a test"), mapped);
  const std::weak_ptr<const Region> watched = mapped;
  region.reset();
  EXPECT_EQ(as_text(ByteSpan(mapped->data() + offset, 7)), "content");
  mapped.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(RegionFile, IsOpenedAndAdoptedWithoutACopy) {
  ScopedFolder folder;
  const auto served = Region::open_file(folder.write("data", "0123456789"));
  EXPECT_EQ(served->kind(), RegionKind::kFile);
  EXPECT_EQ(as_text({served->data(), served->size()}), "0123456789");
  EXPECT_EQ(served->stamp().size, 10);
  EXPECT_EQ(::fcntl(served->descriptor(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_NO_THROW(served->check_unchanged());
  UniqueFd sent(::fcntl(served->descriptor(), F_DUPFD_CLOEXEC, 0));
  const auto adopted = Region::adopt(std::move(sent), RegionKind::kFile, 10, served->stamp(), "here");
  EXPECT_EQ(as_text({adopted->data(), adopted->size()}), "0123456789");
}

TEST(RegionFile, SaysWhatChanged) {
  ScopedFolder folder;
  const std::string path = folder.write("data", "0123456789");
  const auto region = Region::open_file(path);
  ASSERT_EQ(::truncate(path.c_str(), 4), 0);
  const std::string what = message_of<FileChangedError>([&] { region->check_unchanged(); });
  EXPECT_THAT(what, HasSubstr("its size changed from 10 to 4"));
  EXPECT_THAT(what, HasSubstr(path));
  UniqueFd sent(::fcntl(region->descriptor(), F_DUPFD_CLOEXEC, 0));
  EXPECT_THROW(Region::adopt(std::move(sent), RegionKind::kFile, 10, region->stamp(), "here"), FileChangedError);
}

TEST(RegionFile, NoticesAChangeOfTimesAlone) {
  ScopedFolder folder;
  const std::string path = folder.write("data", "0123456789");
  const auto region = Region::open_file(path);
  const std::array<struct timespec, 2> long_ago{};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago.data(), 0), 0);
  EXPECT_THAT(message_of<FileChangedError>([&] { region->check_unchanged(); }), HasSubstr("modification time"));
}

/// Names, links and permissions aren't content.
TEST(RegionFile, DoesNotTakeANewNameOrModeForAChange) {
  ScopedFolder folder;
  const std::string path = folder.write("data", "0123456789");
  const auto region = Region::open_file(path);
  const auto unchanged = [&] {
    EXPECT_NO_THROW(region->check_unchanged());
    UniqueFd sent(::fcntl(region->descriptor(), F_DUPFD_CLOEXEC, 0));
    EXPECT_NE(Region::adopt(std::move(sent), RegionKind::kFile, 10, region->stamp(), "here"), nullptr);
  };
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  unchanged();
  const std::string link = folder.path_of("link");
  ASSERT_EQ(::link(path.c_str(), link.c_str()), 0);
  unchanged();
  const std::string moved = folder.path_of("moved");
  ASSERT_EQ(::rename(path.c_str(), moved.c_str()), 0);
  unchanged();
  ASSERT_EQ(::rename(folder.write("new", "another").c_str(), moved.c_str()), 0);
  unchanged();
  ASSERT_EQ(::unlink(link.c_str()), 0);
  unchanged();
}

TEST(RegionFile, AdoptRefusesAStampOfAnotherSize) {
  ScopedFolder folder;
  const auto region = Region::open_file(folder.write("data", "0123456789"));
  UniqueFd sent(::fcntl(region->descriptor(), F_DUPFD_CLOEXEC, 0));
  EXPECT_THROW(Region::adopt(std::move(sent), RegionKind::kFile, 11, region->stamp(), "here"), ProtocolError);
}

TEST(RegionFile, RefusesWhatIsNoRegularFileWithoutHanging) {
  ScopedFolder folder;
  EXPECT_THROW(Region::open_file(folder.path() + "/none"), NotFoundError);
  EXPECT_THROW(Region::open_file(folder.write("plain", "x") + "/below"), NotFoundError);
  EXPECT_THROW(Region::open_file(folder.path()), InvalidArgumentError);
  EXPECT_THROW(Region::open_file("/dev/null"), InvalidArgumentError);
  EXPECT_THROW(Region::open_file(""), InvalidArgumentError);
  EXPECT_THROW(Region::open_file(std::string("a\0b", 3)), InvalidArgumentError);
  const std::string fifo = folder.path_of("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(Region::open_file(fifo), InvalidArgumentError);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { Region::open_file(folder.write("empty", "")); }),
              HasSubstr("is empty"));
}

TEST(RegionFile, SaysThatItMayNotBeRead) {
  ScopedFolder folder;
  const std::string path = folder.write("secret", "x");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  EXPECT_EQ(run_in_child([&] {
              // Root may read every file; the child gives that up.
              constexpr uid_t kNobody = 65534;
              if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(1);
              try {
                Region::open_file(path);
                ::_exit(2);
              } catch (const PermissionError&) {
              }
            }),
            0);
}

TEST(RegionRecycled, IsWrittenHereAndReadThere) {
  const auto region = Region::make_recycled(10000, "region-test");
  ASSERT_NE(region->writable(), nullptr);
  EXPECT_EQ(region->size(), 10000u);
  EXPECT_EQ(region->kind(), RegionKind::kRecycled);
  UniqueFd sent(::fcntl(region->descriptor(), F_DUPFD_CLOEXEC, 0));
  const auto view = Region::adopt(std::move(sent), RegionKind::kRecycled, 10000, {}, "here");
  EXPECT_EQ(view->writable(), nullptr);
  region->writable()[9999] = std::byte{7};
  EXPECT_EQ(view->data()[9999], std::byte{7});
  EXPECT_EQ(run_in_child([&] { *const_cast<volatile std::byte*>(view->data()) = std::byte{1}; }), -SIGSEGV);
}

TEST(ChangingMemory, EndsWithItsMapping) {
  ScopedFolder folder;
  const std::byte* gone = nullptr;
  {
    const auto file = Region::open_file(folder.write("data", "0123456789"));
    const auto region = Region::make_recycled(10000, "region-test");
    const auto frozen = Region::adopt(sealed_of("hello", kFrozenSeals), RegionKind::kFrozen, 5, {}, "here");
    EXPECT_EQ(bytes_left_in_changing_memory(region->data()), 10000U);
    EXPECT_EQ(bytes_left_in_changing_memory(region->data() + 9999), 1U);
    EXPECT_EQ(bytes_left_in_changing_memory(file->data() + 4), 6U);
    EXPECT_EQ(bytes_left_in_changing_memory(file->data() + 10), std::nullopt);
    EXPECT_EQ(bytes_left_in_changing_memory(frozen->data()), std::nullopt);
    EXPECT_EQ(bytes_left_in_changing_memory(&gone), std::nullopt);
    EXPECT_EQ(bytes_left_in_changing_memory(nullptr), std::nullopt);
    EXPECT_TRUE(in_mapped_file(file->data() + 9));
    EXPECT_FALSE(in_mapped_file(file->data() + 10));
    EXPECT_FALSE(in_mapped_file(region->data()));
    EXPECT_EQ(run_in_child([&] {
                if (bytes_left_in_changing_memory(file->data()) != 10U) ::_exit(1);
                // Recycled memory isn't there in a child, and other memory may be.
                if (bytes_left_in_changing_memory(region->data())) ::_exit(2);
              }),
              0);
    gone = region->data();
  }
  EXPECT_EQ(bytes_left_in_changing_memory(gone), std::nullopt);
}

TEST(RegionRecycled, IsFaultedInBeforehand) {
  constexpr std::uint64_t kSize = 1 << 20;
  const auto region = Region::make_recycled(kSize, "region-test");
  std::vector<unsigned char> resident(kSize / static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  ASSERT_EQ(::mincore(region->writable(), kSize, resident.data()), 0);
  EXPECT_THAT(resident, ::testing::Each(1));
}

TEST(RegionRecycled, TakesNoNewWriterAndKeepsItsSize) {
  const auto region = Region::make_recycled(8192, "region-test");
  const UniqueFd writer = reopen(region->descriptor(), O_RDWR);
  const int fd = writer ? writer.get() : region->descriptor();
  EXPECT_EQ(::pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 4096), -1);
  EXPECT_EQ(::ftruncate(fd, 16384), -1);
  EXPECT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

// More than once waited at most: what one consumer had may be that much, and all of it goes at once.
TEST(RegionRecycled, ManyGoAtOnce) {
  std::vector<std::shared_ptr<Region>> regions;
  for (int i = 0; i < 300; ++i) regions.push_back(Region::make_recycled(256 << 10, "region-test-many"));
  ASSERT_EQ(crossdock::testing::mappings_of("region-test-many"), 300u);
  regions.clear();
  EXPECT_EQ(crossdock::testing::mappings_of("region-test-many"), 0u);
}

TEST(RegionRecycled, IsKeptFromAForkedChild) {
  const auto region = Region::make_recycled(4096, "region-test");
  EXPECT_EQ(run_in_child([&] { (void)*static_cast<volatile const std::byte*>(region->data()); }), -SIGSEGV);
  UniqueFd sent(::fcntl(region->descriptor(), F_DUPFD_CLOEXEC, 0));
  const auto view = Region::adopt(std::move(sent), RegionKind::kRecycled, 4096, {}, "here");
  EXPECT_EQ(run_in_child([&] { (void)*static_cast<volatile const std::byte*>(view->data()); }), -SIGSEGV);
}

TEST(RegionRecycled, DroppedInAChildLeavesWhatLiesAtItsAddressThere) {
  auto region = Region::make_recycled(4096, "region-test");
  EXPECT_EQ(run_in_child([&] {
              void* at = const_cast<std::byte*>(region->data());
              void* other =
                  ::mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              if (other != at) ::_exit(1);
              region.reset();
              *static_cast<volatile char*>(other) = 1;
            }),
            0);
  region->writable()[0] = std::byte{1};
}

TEST(RegionRecycled, RefusesNoBytes) { EXPECT_THROW(Region::make_recycled(0, "region-test"), InvalidArgumentError); }

TEST(RegionRecycled, SaysThatDescriptorsRanOutAndLeaksNothing) {
  ScopedFolder folder;
  const std::string path = folder.write("data", "0123456789");
  const int before = open_descriptors();
  {
    std::vector<UniqueFd> all;
    const ScopedLimit limit(RLIMIT_NOFILE, 64);
    while (true) {
      UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!fd) break;
      all.push_back(std::move(fd));
    }
    EXPECT_THROW(Region::make_recycled(4096, "region-test"), ResourceError);
    EXPECT_THROW(Region::open_file(path), ResourceError);
    EXPECT_THROW(RegionWriter("region-test"), ResourceError);
    EXPECT_THROW(Arena(4096), ResourceError);
    // One left: enough for the memfd, not for its read-only descriptor.
    all.pop_back();
    EXPECT_THROW(Region::make_recycled(4096, "region-test"), ResourceError);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(mappings_of("region-test"), 0u);
  EXPECT_EQ(mappings_of("crossdock-arena"), 0u);
}

TEST(RegionPrivate, ShowsItsOwnerWhatHeWritesAndNobodyElse) {
  std::string content(3 * 4096, 'a');
  const auto source = Region::adopt(sealed_of(content, kFrozenSeals), RegionKind::kFrozen, content.size(), {}, "here",
                                    Region::Descriptor::kKeep);
  ASSERT_GE(source->descriptor(), 0);
  std::shared_ptr<const Region> mine = Region::map_private(source, "here");
  const std::shared_ptr<const Region> other = Region::map_private(source, "here");
  EXPECT_EQ(mine->descriptor(), -1);
  ASSERT_NE(mine->writable(), nullptr);
  EXPECT_TRUE(in_private_memory(mine->data(), content.size()));
  EXPECT_FALSE(in_private_memory(mine->data() + 1, content.size()));
  EXPECT_FALSE(in_private_memory(source->data(), 1));
  ASSERT_TRUE(received_memory(mine->data() + 5, 10));
  EXPECT_EQ(received_memory(mine->data() + 5, 10)->region, source);
  EXPECT_EQ(received_memory(mine->data() + 5, 10)->offset, 5u);

  mine->writable()[4096] = std::byte{'b'};
  EXPECT_EQ(as_text({mine->data() + 4095, 3}), "aba");
  for (const auto& unchanged : {source, other}) EXPECT_EQ(as_text({unchanged->data() + 4095, 3}), "aaa");
  EXPECT_TRUE(received_memory(mine->data(), 4096));
  EXPECT_FALSE(received_memory(mine->data(), 4097)) << "its last byte is on the page that was written to";
  EXPECT_FALSE(received_memory(mine->data() + 8000, 1));
  EXPECT_TRUE(received_memory(mine->data() + 8192, 1));
  EXPECT_FALSE(received_memory(source->data(), 1)) << "this isn't private";

  const void* const start = mine->data();
  mine.reset();
  EXPECT_FALSE(in_private_memory(start, 1));
}

TEST(RegionPrivate, OfMemoryThatCanChangeIsKnownToChange) {
  const auto made = Region::make_recycled(8192, "region-test");
  const auto source = Region::adopt(made->descriptor() < 0 ? UniqueFd() : UniqueFd(::dup(made->descriptor())),
                                    RegionKind::kRecycled, 8192, {}, "here", Region::Descriptor::kKeep);
  const auto mine = Region::map_private(source, "here");
  made->writable()[5] = std::byte{7};
  EXPECT_EQ(mine->data()[5], std::byte{7}) << "until it writes, it sees the region";
  EXPECT_EQ(bytes_left_in_changing_memory(mine->data()), 8192u);
}

TEST(RegionPrivate, MemoryOfThisProcessAloneIsListedAsLong) {
  std::vector<std::byte> bytes(1000);
  {
    PrivateMemory listed;
    listed.add(bytes.data(), 1000);
    listed.add(bytes.data() + 10, 20);
    EXPECT_TRUE(in_private_memory(bytes.data() + 500, 500));
    EXPECT_FALSE(received_memory(bytes.data(), 1000)) << "no peer sent it";
    EXPECT_FALSE(bytes_left_in_changing_memory(bytes.data()));
  }
  EXPECT_FALSE(in_private_memory(bytes.data(), 1));
}

}  // namespace
}  // namespace crossdock::device
