#include "crossdock/core/debug.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/mapping_record.h"
#include "support/temporary_folder.h"

namespace crossdock {
namespace {

constexpr std::size_t kPage = 4096;

/// A page that may be read and not written, as those of a consumer.
struct ReadOnlyPage {
  ReadOnlyPage() : start(::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ReadOnlyPage(const ReadOnlyPage&) = delete;
  ReadOnlyPage& operator=(const ReadOnlyPage&) = delete;
  ~ReadOnlyPage() { ::munmap(start, kPage); }
  volatile char* at(std::size_t offset) const { return static_cast<volatile char*>(start) + offset; }
  void* start;
};

TEST(MappingRecordTest, IsFoundWhileItLivesAndByEachOfItsAddresses) {
  std::vector<char> memory(100);
  const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
  RecordedMapping found;
  {
    MappingRecord record(memory.data(), memory.size(), MappingKind::kFile, "some/path");
    for (const std::uintptr_t at : {start, start + 99}) {
      ASSERT_TRUE(find_mapping(at, &found));
      EXPECT_EQ(found.start, start);
      EXPECT_EQ(found.size, 100u);
      EXPECT_EQ(found.kind, MappingKind::kFile);
      EXPECT_EQ(std::string_view(found.label, found.label_size), "some/path");
    }
    EXPECT_FALSE(find_mapping(start - 1, &found));
    EXPECT_FALSE(find_mapping(start + 100, &found));
    MappingRecord moved = std::move(record);
    EXPECT_TRUE(find_mapping(start, &found));
    record = std::move(moved);
    EXPECT_TRUE(find_mapping(start, &found));
  }
  EXPECT_FALSE(find_mapping(start, &found));
}

TEST(MappingRecordTest, ALongLabelIsCutAndManyRecordsAreKnown) {
  const std::string label(1000, 'x');
  std::vector<char> memory(1000);
  std::vector<MappingRecord> records;
  records.reserve(memory.size());
  for (char& byte : memory) records.emplace_back(&byte, 1, MappingKind::kMemory, label);
  for (const char& byte : memory) {
    RecordedMapping found;
    ASSERT_TRUE(find_mapping(reinterpret_cast<std::uintptr_t>(&byte), &found));
    EXPECT_EQ(found.label_size, RecordedMapping::kLongestLabel);
  }
}

TEST(MappingRecordTest, ThreadsMakeAndDropThemWhileOthersLook) {
  std::vector<char> memory(64);
  const MappingRecord kept(memory.data(), memory.size(), MappingKind::kMemory, std::string(240, 'k'));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&stop] {
      char byte = 0;
      while (!stop.load()) {
        const MappingRecord one(&byte, 1, MappingKind::kMemory, std::string(240, 'a'));
        const MappingRecord two(&byte, 1, MappingKind::kMemory, std::string(240, 'b'));
      }
    });
  }
  for (int i = 0; i < 10'000; ++i) {
    RecordedMapping found;
    ASSERT_TRUE(find_mapping(reinterpret_cast<std::uintptr_t>(memory.data()), &found));
    ASSERT_EQ(std::string_view(found.label, found.label_size), std::string(240, 'k'));
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They have handlers of their own.

TEST(FaultReportDeathTest, AWriteIntoRecordedMemorySaysSoAndDiesByTheSignal) {
  const ReadOnlyPage page;
  const MappingRecord record(page.start, kPage, MappingKind::kMemory, "region 7 of shm:there\n");
  EXPECT_EXIT(
      {
        report_faults();
        report_faults();
        *page.at(17) = 1;
      },
      ::testing::KilledBySignal(SIGSEGV),
      "write into read-only Crossdock memory\n  address 0x[0-9a-f]+, byte 17 of 4096 in region 7 of "
      "shm:there\\?\n.*copy");
}

TEST(FaultReportDeathTest, AnyThreadMayFault) {
  const ReadOnlyPage page;
  const MappingRecord record(page.start, kPage, MappingKind::kMemory, "it");
  EXPECT_EXIT(
      {
        report_faults();
        std::thread([&page] { *page.at(1) = 1; }).join();
      },
      ::testing::KilledBySignal(SIGSEGV), "byte 1 of 4096 in it");
}

TEST(FaultReportDeathTest, AReadBeyondTheEndOfAFileNamesTheFile) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "data.arrow";
  std::FILE* const file = std::fopen(path.c_str(), "w+");
  ASSERT_NE(file, nullptr);
  const std::vector<char> content(2 * kPage, 'x');
  ASSERT_EQ(std::fwrite(content.data(), 1, content.size(), file), content.size());
  ASSERT_EQ(std::fflush(file), 0);
  void* const start = ::mmap(nullptr, content.size(), PROT_READ, MAP_SHARED, ::fileno(file), 0);
  ASSERT_NE(start, MAP_FAILED);
  const MappingRecord record(start, content.size(), MappingKind::kFile, path);
  EXPECT_EXIT(
      {
        report_faults();
        if (::ftruncate(::fileno(file), 0) != 0) ::_exit(1);
        ::_exit(static_cast<volatile char*>(start)[kPage]);
      },
      ::testing::KilledBySignal(SIGBUS), "was truncated\n  address .*, byte 4096 of 8192 in the file .*/data.arrow\n");
  ::munmap(start, content.size());
  std::fclose(file);
}

TEST(FaultReportDeathTest, FaultsElsewhereAndSignalsSentArePassedOnUnchanged) {
  const ReadOnlyPage page;
  const ReadOnlyPage other;
  const MappingRecord record(page.start, kPage, MappingKind::kMemory, "it");
  EXPECT_EXIT(
      {
        report_faults();
        *other.at(0) = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT(
      {
        report_faults();
        ::raise(SIGSEGV);
      },
      ::testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT(
      {
        report_faults();
        ::raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "^$");
  EXPECT_EXIT(
      {
        report_faults();
        stop_reporting_faults();
        stop_reporting_faults();
        *page.at(0) = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "^$");
}

sigjmp_buf escape;
volatile char* handled_at = nullptr;

void escaping(int /*signal*/) { siglongjmp(escape, 1); }

void making_it_writable(int /*signal*/, siginfo_t* info, void* /*context*/) {
  handled_at = static_cast<volatile char*>(info->si_addr);
  const auto page = reinterpret_cast<std::uintptr_t>(info->si_addr) & ~std::uintptr_t{kPage - 1};
  ::mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);
}

TEST(FaultReportDeathTest, HandlersThatMendAFaultStillDo) {
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_sigaction = making_it_writable;
        action.sa_flags = SA_SIGINFO;
        ::sigaction(SIGSEGV, &action, nullptr);
        report_faults();
        for (int i = 0; i < 3; ++i) {
          const ReadOnlyPage page;
          *page.at(5) = 3;
          if (handled_at != page.at(5) || *page.at(5) != 3) ::_exit(1);
        }
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(
      {
        ::signal(SIGSEGV, escaping);
        report_faults();
        const ReadOnlyPage page;
        if (sigsetjmp(escape, 1) == 0) *page.at(5) = 3;
        if (sigsetjmp(escape, 1) == 0) *page.at(6) = 3;
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
}

struct sigaction under;
int times = 0;

void calling_the_one_under_it(int signal, siginfo_t* info, void* context) {
  if (++times > 2) ::_exit(99);
  under.sa_sigaction(signal, info, context);
}

TEST(FaultReportDeathTest, AChainThatLeadsBackEnds) {
  const ReadOnlyPage page;
  const MappingRecord record(page.start, kPage, MappingKind::kMemory, "it");
  EXPECT_EXIT(
      {
        report_faults();
        struct sigaction action {};
        action.sa_sigaction = calling_the_one_under_it;
        action.sa_flags = SA_SIGINFO;
        ::sigaction(SIGSEGV, &action, &under);
        report_faults();
        *page.at(0) = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "byte 0 of 4096 in it");
}

#endif

}  // namespace
}  // namespace crossdock
