#include "device/memfd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // since Linux 6.3; Debian 12's headers are older
#endif

namespace crossdock::device::memfd {
namespace {

constexpr std::uint64_t kBlock = 512;  // the unit of st_blocks
constexpr long kCachestat = 451;       // since Linux 6.5, and newer than Debian 12's headers; the same on all machines

/// Returns the bytes of memory that the file has beyond `size` bytes: fallocate() can allocate some there without
/// making the file longer. Returns nothing if the system doesn't say: before Linux 6.5, and for other users' files.
std::optional<std::uint64_t> backed_beyond(const UniqueFd& fd, std::uint64_t size) {
  // The kernel's structs, whose header is newer than Debian 12's headers.
  const struct {
    std::uint64_t offset, length;  // 0: to the end
  } range{align_up(size, page_size()), 0};
  struct {
    std::uint64_t cached, dirty, written_back, evicted, recently_evicted;
  } pages{};
  if (::syscall(kCachestat, fd.get(), &range, &pages, 0) != 0) return std::nullopt;
  return (pages.cached + pages.evicted) * page_size();
}

thread_local std::uint64_t searched = 0;

/// Returns whether reading the whole file allocates memory that it didn't have. Reads in steps, so that a file of holes
/// costs one step only.
bool grows_when_read(const UniqueFd& fd, std::uint64_t size, const std::string& name) {
  constexpr std::uint64_t kStep = 1 << 20;
  auto blocks = inspect(fd.get(), name).st_blocks;
  for (std::uint64_t at = 0; at < size; at += kStep) {
    const std::uint64_t step = std::min(kStep, size - at);
    void* const start = ::mmap(nullptr, step, PROT_READ, MAP_SHARED, fd.get(), static_cast<off_t>(at));
    if (start == MAP_FAILED) throw_errno(errno, name + ": mapping it to find its holes");
    const auto* const bytes = static_cast<const volatile std::byte*>(start);
    for (std::uint64_t page = 0; page < step; page += page_size()) static_cast<void>(bytes[page]);
    ::munmap(start, step);
    searched += step;
    const auto now = inspect(fd.get(), name).st_blocks;
    if (now > blocks) return true;
    blocks = now;
  }
  return false;
}

/// Files that were read to their end and have no holes. None can get one: they are sealed against writing, which is
/// also against freeing pages. Another file that gets the number of one of them has a later time. Thread-safe.
class FullFiles {
 public:
  bool knows(const struct stat& file) {
    const std::lock_guard lock(mutex_);
    const auto found = times_.find(key_of(file));
    return found != times_.end() && found->second == time_of(file);
  }
  void add(const struct stat& file) {
    const std::lock_guard lock(mutex_);
    if (times_.size() >= kMost) times_.clear();
    times_[key_of(file)] = time_of(file);
  }

 private:
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  static constexpr std::size_t kMost = 65'536;
  static Pair key_of(const struct stat& file) noexcept { return {file.st_dev, file.st_ino}; }
  static Pair time_of(const struct stat& file) noexcept {
    return {static_cast<std::uint64_t>(file.st_ctim.tv_sec), static_cast<std::uint64_t>(file.st_ctim.tv_nsec)};
  }
  std::mutex mutex_;
  std::map<Pair, Pair> times_;
};

FullFiles& full_files() {
  static auto* const made = new FullFiles;
  return *made;
}

UniqueFd reopen(const UniqueFd& fd, int mode, const std::string& name) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  const int copy = ::open(path.c_str(), mode | O_CLOEXEC);
  if (copy < 0) {
    throw_errno(errno, "reopening the shared memory \"" + name + "\" " +
                           (mode == O_RDONLY ? "read-only" : "for writing") + " through " + path +
                           " (/proc must be mounted in this container)");
  }
  return UniqueFd(copy);
}

}  // namespace

const int kFrozenSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
const int kRecycledSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

std::uint64_t page_size() noexcept {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

void* remap(void* old_address, std::size_t old_size, std::size_t new_size, int flags, void* new_address) noexcept {
  return reinterpret_cast<void*>(::syscall(SYS_mremap, old_address, old_size, new_size, flags, new_address));
}

UniqueFd create(const std::string& name) {
  constexpr std::size_t kLongestName = 200;  // the kernel's limit is 249
  const std::string shown = name.substr(0, kLongestName);
  int fd = ::memfd_create(shown.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create(shown.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) throw_errno(errno, "creating the shared memory \"" + name + "\"");
  return UniqueFd(fd);
}

UniqueFd reopen_read_only(const UniqueFd& fd, const std::string& name) { return reopen(fd, O_RDONLY, name); }
UniqueFd reopen_writable(const UniqueFd& fd, const std::string& name) { return reopen(fd, O_RDWR, name); }

void check_size_limit(std::uint64_t size, const std::string& name) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur) {
    throw ResourceError("the shared memory \"" + name + "\" would have " + std::to_string(size) +
                        " bytes, but this process may make files of at most " + std::to_string(limit.rlim_cur) +
                        " bytes; raise the limit (ulimit -f)");
  }
}

void resize(const UniqueFd& fd, std::uint64_t size, const std::string& name) {
  check_size_limit(size, name);
  while (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EFBIG || errno == EINVAL) {
      throw ResourceError("the shared memory \"" + name + "\" can't have " + std::to_string(size) +
                          " bytes: more than this system allows a file");
    }
    throw_errno(errno, "resizing the shared memory \"" + name + "\" to " + std::to_string(size) + " bytes");
  }
}

void fill_holes(const UniqueFd& fd, std::uint64_t offset, std::uint64_t size, const std::string& name) {
  // Allocates in steps: an interrupted call frees all memory that it had allocated, so one long call under a regular
  // signal (a profiler's timer) would never end.
  constexpr std::uint64_t kStep = std::uint64_t{64} << 20;
  for (std::uint64_t done = 0; done < size;) {
    const std::uint64_t step = std::min(kStep, size - done);
    if (::fallocate(fd.get(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(step)) == 0) {
      done += step;
    } else if (errno != EINTR) {
      throw_errno(errno, "allocating the shared memory \"" + name + "\"");
    }
  }
}

struct stat inspect(int fd, const std::string& where) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(errno, where + ": inspecting the descriptor");
  return status;
}

bool fully_backed(const UniqueFd& fd, std::uint64_t size, const std::string& name) {
  return static_cast<std::uint64_t>(inspect(fd.get(), "the shared memory \"" + name + "\"").st_blocks) * kBlock >= size;
}

void seal(const UniqueFd& fd, int seals, const std::string& name) {
  if (::fcntl(fd.get(), F_ADD_SEALS, seals) == 0) return;
  if (errno == EBUSY) {
    throw SystemError("sealing the shared memory \"" + name +
                      "\": a writable mapping of it still exists (in a forked child, say), or the system is still "
                      "writing to it (direct or asynchronous I/O); wait for that to end, then try again");
  }
  throw_errno(errno, "sealing the shared memory \"" + name + "\"");
}

std::string fault_of(const UniqueFd& fd, int seals, std::uint64_t size, const std::string& name) {
  const int found = ::fcntl(fd.get(), F_GET_SEALS);
  if (found < 0) return "it isn't a memfd: a pipe, a socket, a device or an ordinary file has no seals";
  struct statfs system {};
  if (::fstatfs(fd.get(), &system) != 0) throw_errno(errno, name + ": inspecting the descriptor");
  // The type of the file system shows huge pages of a fixed pool. st_blksize doesn't show them: transparent huge pages
  // change it too, and they are as good as ordinary pages.
  if (system.f_type != TMPFS_MAGIC) return "it isn't memory with pages of ordinary size";
  const int missing = seals & ~found;
  if ((missing & F_SEAL_SHRINK) != 0) return "it isn't sealed against shrinking";
  if ((missing & F_SEAL_GROW) != 0) return "it isn't sealed against growing";
  if ((missing & F_SEAL_WRITE) != 0) return "it isn't sealed against writing";
  if ((missing & F_SEAL_FUTURE_WRITE) != 0) return "it isn't sealed against new writers";
  if ((missing & F_SEAL_SEAL) != 0) return "its seals can still be changed";
  // The order matters. A sealed file gets no more blocks beyond its end, but the blocks that it has there may be freed
  // at any time. So they are counted first, before the count of all blocks. Blocks within its size can't be freed any
  // more.
  const std::optional<std::uint64_t> beyond = backed_beyond(fd, size);
  const struct stat status = inspect(fd.get(), name);
  if (static_cast<std::uint64_t>(status.st_size) != size) {
    return "it has " + std::to_string(status.st_size) + " bytes, but " + std::to_string(size) + " were announced";
  }
  const std::uint64_t all = static_cast<std::uint64_t>(status.st_blocks) * kBlock;
  const std::uint64_t backed = all - std::min(all, beyond.value_or(0));
  if (backed < size) {
    return "it has holes: memory for " + std::to_string(backed) + " of its " + std::to_string(size) + " bytes";
  }
  if (beyond) return {};
  // A peer may pass a file any number of times, and to read it takes a while.
  const bool stays_full = (found & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0;
  if (stays_full && full_files().knows(status)) return {};
  if (grows_when_read(fd, size, name)) return "it has holes: reading it allocates memory";
  if (stays_full) full_files().add(status);
  return {};
}

std::uint64_t bytes_searched() noexcept { return searched; }

}  // namespace crossdock::device::memfd
