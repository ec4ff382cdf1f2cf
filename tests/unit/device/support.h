#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/unique_fd.h"
#include "crossdock/device/memory.h"
#include "device/region.h"
#include "support/system_calls.h"

namespace crossdock::testing {

/// What became of a forked child that ran `work`: its exit status (0 if `work` came to its end), or minus the signal
/// that killed it.
template <typename Work>
int run_in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    // A sanitizer's handler would turn the signal into an exit, and a core dump would take its time.
    for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
    const struct rlimit no_core {};
    ::setrlimit(RLIMIT_CORE, &no_core);
    try {
      work();
    } catch (...) {
      ::_exit(99);
    }
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1000;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/// Lowers a limit of this process while it lives.
class ScopedLimit {
 public:
  ScopedLimit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    EXPECT_EQ(::getrlimit(resource, &before_), 0);
    struct rlimit lowered = before_;
    lowered.rlim_cur = value;
    EXPECT_EQ(::setrlimit(resource, &lowered), 0);
  }
  ~ScopedLimit() { ::setrlimit(resource_, &before_); }
  ScopedLimit(const ScopedLimit&) = delete;
  ScopedLimit& operator=(const ScopedLimit&) = delete;

 private:
  __rlimit_resource resource_;
  struct rlimit before_ {};
};

/// Address space that this process uses, in bytes.
inline rlim_t address_space() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  if (file != nullptr) std::fclose(file);
  return static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// A folder of the test's own, removed with the files directly in it.
class ScopedFolder {
 public:
  ScopedFolder() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/crossdock-test-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder at " << path_;
  }
  ~ScopedFolder() {
    for (const std::string& file : files_) ::unlink(file.c_str());
    ::rmdir(path_.c_str());
  }
  ScopedFolder(const ScopedFolder&) = delete;
  ScopedFolder& operator=(const ScopedFolder&) = delete;

  const std::string& path() const { return path_; }
  /// The path of a file in it, to be removed at the end; not made.
  std::string path_of(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }
  /// A file with this content.
  std::string write(const std::string& name, const std::string& content) {
    const std::string path = path_of(name);
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    EXPECT_EQ(::write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
    return path;
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

/// The kinds of memory that a driver has.
inline constexpr device::MemoryKind kMemoryKinds[] = {device::MemoryKind::kDevice, device::MemoryKind::kHost,
                                                      device::MemoryKind::kShared};

/// The region as another process maps it that was sent its descriptor.
inline std::shared_ptr<const device::Region> adopt(const device::Region& region) {
  UniqueFd sent(::fcntl(region.descriptor(), F_DUPFD_CLOEXEC, 0));
  return device::Region::adopt(std::move(sent), region.kind(), region.size(), region.stamp(), "here");
}

}  // namespace crossdock::testing
