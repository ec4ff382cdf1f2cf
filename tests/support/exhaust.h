#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

/// Takes all that a process may have of something. For a child process of a test: the test's own limits stay alone.
namespace crossdock::testing {

/// Holds every descriptor that this process may still open.
class AllDescriptors {
 public:
  AllDescriptors() {
    const rlimit few{256, limit().rlim_max};  // a number of them that is soon reached
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) std::abort();
    for (int fd = -1; (fd = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0;) held_.push_back(fd);
  }
  ~AllDescriptors() {
    free(held_.size());
    const rlimit all{before_, limit().rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &all);
  }
  AllDescriptors(const AllDescriptors&) = delete;
  AllDescriptors& operator=(const AllDescriptors&) = delete;
  void free(std::size_t n) {
    for (; n > 0 && !held_.empty(); --n, held_.pop_back()) ::close(held_.back());
  }

 private:
  static rlimit limit() {
    rlimit now{};
    if (::getrlimit(RLIMIT_NOFILE, &now) != 0) std::abort();
    return now;
  }
  const rlim_t before_ = limit().rlim_cur;
  std::vector<int> held_;
};

/// Holds every mapping that this process may still make (vm.max_map_count): neighbouring pages of different protection
/// are mappings of their own.
class AllMappings {
 public:
  AllMappings() {
    void* start = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) std::abort();
    start_ = static_cast<std::byte*>(start);
    for (std::size_t at = kPage; at < kBytes; at += 2 * kPage) {
      if (::mprotect(start_ + at, kPage, PROT_READ) != 0) {
        // A split makes two: the last one that is left is taken by a page of its own.
        while (::mmap(nullptr, kPage, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
        }
        return;
      }
    }
    std::abort();  // the system's limit is higher than any that is known
  }
  ~AllMappings() { ::munmap(start_, kBytes); }
  AllMappings(const AllMappings&) = delete;
  AllMappings& operator=(const AllMappings&) = delete;

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kBytes = kPage << 20;  // of address space; no memory
  std::byte* start_ = nullptr;
};

}  // namespace crossdock::testing
