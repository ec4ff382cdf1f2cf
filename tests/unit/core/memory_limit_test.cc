// What the cgroups of a process, and its machine, leave: trees of files made up by the test, of both versions.
#include "core/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "crossdock/core/error.h"
#include "support/temporary_folder.h"

namespace crossdock {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class MemoryLimit : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = folder_ / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }
  void in_version_2(const std::string& cgroup, const std::string& root = "/") {
    write("proc/cgroup", "0::" + cgroup);
    write("proc/mountinfo",
          "22 1 0:20 / / rw - ext4 /dev/sda1 rw\n"
          "30 22 0:26 " +
              root + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate");
  }
  void in_version_1(const std::string& cgroup, const std::string& root = "/") {
    write("proc/cgroup", "12:cpu,cpuacct:/other\n4:hugetlb,memory:" + cgroup + "\n0::/unified");
    write("proc/mountinfo",
          "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
          "35 31 0:32 " +
              root +
              " /sys/fs/cgroup/me\\040mory rw master:4 - cgroup cgroup rw,hugetlb,memory\n"
              "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  }
  void group_2(const std::string& cgroup, const std::string& limit, std::uint64_t used, std::uint64_t caches = 0) {
    write("sys/fs/cgroup" + cgroup + "/memory.max", limit);
    write("sys/fs/cgroup" + cgroup + "/memory.current", std::to_string(used));
    write("sys/fs/cgroup" + cgroup + "/memory.stat",
          "anon 5\nfile 999999999\nshmem 999\ninactive_anon 7\ninactive_file " + std::to_string(caches / 2) +
              "\nactive_file " + std::to_string(caches - caches / 2));
  }
  void group_1(const std::string& cgroup, std::uint64_t limit, std::uint64_t used, std::uint64_t caches = 0) {
    const std::string folder = "sys/fs/cgroup/me mory" + cgroup;
    write(folder + "/memory.limit_in_bytes", std::to_string(limit));
    write(folder + "/memory.usage_in_bytes", std::to_string(used));
    write(folder + "/memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(caches) +
                                       "\ntotal_active_file 0\ntotal_inactive_anon 9");
  }
  std::optional<MemoryRoom> room(std::uint64_t free_swap = 0) const {
    std::string root = folder_ / "";
    root.pop_back();
    return memory_room({.process = folder_ / "proc", .root = root, .free_swap = free_swap});
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(MemoryLimit, OfVersion2IsTheLimitLessWhatIsUsedAndCantBeDropped) {
  in_version_2("/service");
  group_2("/service", "104857600", 80 * kMiB, 30 * kMiB);
  const auto found = room();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cgroup, "/service");
  EXPECT_EQ(found->limit, 100 * kMiB);
  EXPECT_EQ(found->available, 50 * kMiB);
}

TEST_F(MemoryLimit, OfVersion1IsFoundByItsController) {
  in_version_1("/service");
  group_1("/service", 100 * kMiB, 80 * kMiB, 30 * kMiB);
  const auto found = room();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cgroup, "/service");
  EXPECT_EQ(found->available, 50 * kMiB);
}

TEST_F(MemoryLimit, TheTightestOfACgroupAndThoseAboveItCounts) {
  in_version_2("/a/b/c");
  group_2("", "max", 0);
  group_2("/a", std::to_string(500 * kMiB), 490 * kMiB);
  group_2("/a/b", "max", 50 * kMiB);
  group_2("/a/b/c", std::to_string(100 * kMiB), 50 * kMiB);
  const auto found = room();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cgroup, "/a");
  EXPECT_EQ(found->available, 10 * kMiB);
}

TEST_F(MemoryLimit, NoLimitIsNothing) {
  in_version_2("/a");
  EXPECT_FALSE(room()) << "the files aren't there, as in the outermost cgroup";
  group_2("/a", "max", 50 * kMiB);
  EXPECT_FALSE(room());
  in_version_1("/a");
  group_1("/a", 0x7FFFFFFFFFFFF000, 50 * kMiB);
  EXPECT_FALSE(room());
}

TEST_F(MemoryLimit, WhatCantBeReadIsNothing) {
  EXPECT_FALSE(room()) << "no /proc";
  write("proc/cgroup", "nonsense\n::\n4:cpu:/x");
  EXPECT_FALSE(room());
  write("proc/cgroup", "0::/a");
  write("proc/mountinfo", "1 2 - cgroup2\n\n30 22 0:26 /");
  EXPECT_FALSE(room());
  in_version_2("/a");
  group_2("/a", "a lot", 1);
  EXPECT_FALSE(room());
}

TEST_F(MemoryLimit, AContainerMaySeeItsOwnCgroupAsTheRoot) {
  in_version_2("/");  // a namespace of cgroups
  group_2("", std::to_string(100 * kMiB), 20 * kMiB);
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->cgroup, "/");
  EXPECT_EQ(room()->available, 80 * kMiB);
  in_version_1("/docker/x", "/docker/x");  // none
  group_1("", 100 * kMiB, 30 * kMiB);
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->cgroup, "/docker/x");
  EXPECT_EQ(room()->available, 70 * kMiB);
  in_version_1("/docker/xy/z", "/docker/x");  // not below what is mounted
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->available, 70 * kMiB);
}

TEST_F(MemoryLimit, MoreUsedThanAllowedLeavesNothing) {
  in_version_2("/a");
  group_2("/a", std::to_string(10 * kMiB), 20 * kMiB);
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->available, 0u);
}

TEST_F(MemoryLimit, FreeSwapCountsAsFarAsTheCgroupMayUseIt) {
  in_version_2("/a");
  group_2("/a", std::to_string(100 * kMiB), 90 * kMiB);
  EXPECT_EQ(room(50 * kMiB)->available, 60 * kMiB) << "no limit of swap";
  write("sys/fs/cgroup/a/memory.swap.max", std::to_string(20 * kMiB));
  write("sys/fs/cgroup/a/memory.swap.current", std::to_string(5 * kMiB));
  EXPECT_EQ(room(50 * kMiB)->available, 25 * kMiB);
  EXPECT_EQ(room(1 * kMiB)->available, 11 * kMiB);
  EXPECT_EQ(room(0)->available, 10 * kMiB);
  in_version_1("/a");
  group_1("/a", 100 * kMiB, 90 * kMiB, 10 * kMiB);
  write("sys/fs/cgroup/me mory/a/memory.memsw.limit_in_bytes", std::to_string(110 * kMiB));
  write("sys/fs/cgroup/me mory/a/memory.memsw.usage_in_bytes", std::to_string(95 * kMiB));
  EXPECT_EQ(room(50 * kMiB)->available, 25 * kMiB) << "110 for both, 85 of them kept";
  EXPECT_EQ(room(0)->available, 20 * kMiB);
}

TEST_F(MemoryLimit, TheMachineCountsWhereItHasLessLeft) {
  write("proc/meminfo", "MemTotal:        102400 kB\nMemFree:          1 kB\nMemAvailable:     40960 kB");
  ASSERT_TRUE(room()) << "without a cgroup";
  EXPECT_EQ(room()->cgroup, "");
  EXPECT_EQ(room()->limit, 100 * kMiB);
  EXPECT_EQ(room()->available, 40 * kMiB);
  EXPECT_EQ(room(5 * kMiB)->available, 45 * kMiB) << "with free swap";
  in_version_2("/a");
  group_2("/a", std::to_string(100 * kMiB), 80 * kMiB);
  EXPECT_EQ(room()->cgroup, "/a");
  EXPECT_EQ(room()->available, 20 * kMiB);
  group_2("/a", std::to_string(100 * kMiB), 50 * kMiB);
  EXPECT_EQ(room()->cgroup, "");
  EXPECT_EQ(room()->available, 40 * kMiB);
  write("proc/meminfo", "MemTotal: much");
  EXPECT_EQ(room()->cgroup, "/a");
}

TEST_F(MemoryLimit, MoreThanTheMachineHasIsAnError) {
  EXPECT_THROW(check_memory_room(std::uint64_t{1} << 50, "a table"), ResourceError);
}

TEST_F(MemoryLimit, OfThisProcessLittleIsAlwaysGranted) {
  EXPECT_NO_THROW(check_memory_room(0, "nothing"));
  EXPECT_NO_THROW(check_memory_room(4096, "a page"));
}

}  // namespace
}  // namespace crossdock
