#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "crossdock/core/bytes.h"
#include "crossdock/core/export.h"
#include "crossdock/core/fork.h"
#include "crossdock/core/mapping_record.h"
#include "crossdock/core/unique_fd.h"

namespace crossdock::device {

/// What a consumer may rely on. See docs/security.md.
enum class RegionKind : std::uint8_t {
  kFrozen = 1,  ///< A memfd sealed against every write; nobody can change it any more.
  /// A memfd whose producer writes on; sealed against new writers, shrinking and growing. Leased per message.
  kRecycled = 2,
  /// An ordinary file, passed by descriptor. Can't be sealed: its size and modification time are checked at each
  /// hand-over.
  kFile = 3,
};

/// A file's identity and the state of its content at the moment it was opened: what is compared at each hand-over.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  /// Not compared: it changes with names, links and permissions, too, which leave the content alone.
  std::int64_t ctime_ns = 0;
  bool operator==(const FileStamp& other) const noexcept {
    return device == other.device && inode == other.inode && size == other.size && mtime_ns == other.mtime_ns;
  }
  /// Throws (system errors).
  static FileStamp of(int fd);
};

/// Host memory behind a descriptor that can be handed to another process. Unmapped and closed when the last owner goes,
/// on whatever thread: a large region a moment later, on a thread of the library's, so that the owner doesn't wait for
/// the kernel. Safe to share. After a fork a recycled region is not mapped in the child (MADV_DONTFORK), others
/// are.
class CROSSDOCK_EXPORT Region {
 public:
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  /// A consumer's view of a descriptor that a peer sent: checks before it maps. kFrozen and kRecycled: a memfd of
  /// ordinary pages with the seals of its kind (kFrozen: WRITE, SHRINK, GROW, SEAL; kRecycled: FUTURE_WRITE, SHRINK,
  /// GROW, SEAL), exactly `size` bytes, all its blocks there. kFile: a regular file of exactly `stamp`. Maps read-only.
  /// On success takes the descriptor (and closes it: the mapping is enough); throws ProtocolError (the peer lied: says
  /// which check failed), FileChangedError, ResourceError (the mapping failed). `where` names it in errors.
  static std::shared_ptr<const Region> adopt(UniqueFd fd, RegionKind kind, std::uint64_t size, const FileStamp& stamp,
                                             const std::string& where);

  /// Opens a regular file read-only as a kFile region, mapped. Throws NotFoundError, PermissionError,
  /// InvalidArgumentError (not a regular file).
  static std::shared_ptr<const Region> open_file(const std::string& path);

  /// A new recycled region, writable here, pre-faulted, sealed as its kind says. `name` shows up in /proc/PID/maps.
  /// Throws ResourceError, also where a cgroup's memory limit leaves less (core/memory_limit.h).
  static std::shared_ptr<Region> make_recycled(std::uint64_t size, const char* name);

  RegionKind kind() const noexcept { return kind_; }
  std::uint64_t size() const noexcept { return size_; }
  /// The mapping's start; null if this process made the region without mapping it (RegionWriter).
  const std::byte* data() const noexcept { return data_; }
  /// kRecycled in the process that made it; else null.
  std::byte* writable() const noexcept { return writable_ ? const_cast<std::byte*>(data_) : nullptr; }
  bool contains(const void* pointer, std::uint64_t size) const noexcept;
  /// The descriptor to pass on; -1 at a consumer.
  int descriptor() const noexcept { return fd_.get(); }
  const FileStamp& stamp() const noexcept { return stamp_; }
  /// kFile at its producer: throws FileChangedError, with what changed, if it is no longer `stamp()`: its size or
  /// its modification time. A file that was renamed, unlinked, or given another mode hasn't changed. Else nothing.
  void check_unchanged() const;

 private:
  friend class RegionWriter;
  friend class Arena;
  Region() = default;
  ForkGuard made_in_;
  UniqueFd fd_;
  RegionKind kind_ = RegionKind::kFrozen;
  bool writable_ = false;
  std::uint64_t size_ = 0;
  const std::byte* data_ = nullptr;
  std::uint64_t mapped_ = 0;  // bytes of address space to free
  FileStamp stamp_;
  std::string name_;
  MappingRecord record_;  // of a mapping that is read-only here
};

/// Writes bytes once into a fresh memfd and freezes it: the one copy of ordinary heap data. Never maps it, so nothing
/// needs to be faulted in and nothing is writable when it is sealed. One thread at a time.
class CROSSDOCK_EXPORT RegionWriter {
 public:
  explicit RegionWriter(const char* name);
  /// Appends at the next 64-byte boundary; returns the offset. Never 0: the first 64 bytes stay unused. Throws
  /// ResourceError, SystemError (then nothing was appended), ForkError.
  std::uint64_t append(ByteSpan bytes);
  std::uint64_t size() const noexcept { return end_; }
  /// Seals and gives away; the region's size is size() rounded up to 64. The writer is empty afterwards.
  std::shared_ptr<const Region> freeze();

 private:
  ForkGuard made_in_;
  UniqueFd fd_;
  std::string name_;
  std::uint64_t end_ = 64;
};

/// Memory to build one table in, which publishing then takes over without a copy. Grows as needed within address space
/// reserved at the start. Thread-safe.
class CROSSDOCK_EXPORT Arena {
 public:
  /// `reserve`: the most that it can hold, bytes of address space only; 0 means twice the machine's memory, or less
  /// where a limit on address space demands it. Throws ResourceError.
  explicit Arena(std::uint64_t reserve = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Zeroed memory, aligned to 64 bytes, alive as long as the arena or the region made from it; for size 0 a pointer
  /// into it, too. Throws ArenaFrozenError (also while another thread freezes), ResourceError (over `reserve`),
  /// ForkError. Until it is frozen, the memory isn't there in a forked child (SIGSEGV).
  std::byte* allocate(std::uint64_t size);
  bool contains(const void* pointer, std::uint64_t size) const noexcept;
  /// Bytes handed out, with padding and the unused start.
  std::uint64_t size() const noexcept;
  bool frozen() const noexcept;

  /// Makes the memory read-only at the same addresses, in this process too, seals it and gives it away as a kFrozen
  /// region; offsets in it are distances from its data(). Later calls return the same region. Whoever writes through a
  /// view that he kept gets SIGSEGV. Calls the on_freeze hooks first, with no lock held. The region's size is the
  /// arena's, rounded up to whole pages. Throws what a hook throws, ForkError, ResourceError (no memory for pages never
  /// touched), and then the arena is as before; or SystemError (it can't be sealed because somebody else can still
  /// write), and then it is read-only and freeze() can be tried again.
  std::shared_ptr<const Region> freeze();
  /// Called by freeze(), again if that failed and is tried again; at once if the arena is being frozen or was.
  void on_freeze(std::function<void()> hook);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crossdock::device
