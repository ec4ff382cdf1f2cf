#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/fork.h"
#include "core/mapping_record.h"
#include "core/unique_fd.h"
#include "crossdock/device/driver.h"

namespace crossdock::device {

/// Says what a consumer may rely on. See docs/explanation/security.md.
enum class RegionKind : std::uint8_t {
  kFrozen = 1,  ///< A memfd sealed against every write; no process can change it any more.
  /// A memfd that its producer keeps writing to; sealed against new writers, shrinking and growing. Leased per message.
  kRecycled = 2,
  /// An ordinary file, passed by descriptor. It can't be sealed: its size and modification time are checked at each
  /// hand-over.
  kFile = 3,
  /// Memory of a device, written once. Passed by its driver's handle.
  kDevice = 4,
};

/// A file's identity, and the state of its content at the moment it was opened. It is compared at each hand-over.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  /// Not compared: it also changes with names, links and permissions, which don't change the content.
  std::int64_t ctime_ns = 0;
  bool operator==(const FileStamp& other) const noexcept {
    return device == other.device && inode == other.inode && size == other.size && mtime_ns == other.mtime_ns;
  }
  /// Returns the stamp of an open file. Throws system errors.
  static FileStamp of(int fd);
};

/// Memory that can be handed to another process: host memory behind a descriptor, or memory of a device. It is unmapped
/// and closed when the last owner is dropped, on any thread. A large region is unmapped and closed a moment later, on a
/// thread of the library, so that the owner doesn't wait for the kernel. Safe to share between threads. After a fork,
/// recycled regions aren't mapped in the child (MADV_DONTFORK); other regions are.
class Region {
 public:
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  /// Whether adopt() keeps the descriptor, so that the region can be mapped again or announced to others.
  enum class Descriptor : std::uint8_t { kClose, kKeep };

  /// Maps a descriptor that a peer sent, read-only, for a consumer. Checks it first. kFrozen and kRecycled: it must be
  /// a memfd of ordinary pages with the seals of its kind (kFrozen: WRITE, SHRINK, GROW, SEAL; kRecycled: FUTURE_WRITE,
  /// SHRINK, GROW, SEAL), have exactly `size` bytes, and have all its blocks allocated; of another file nothing is
  /// asked that could wait for the peer. kFile: it must be a regular file with exactly `stamp`. On success takes the
  /// descriptor, and closes it unless `descriptor` is kKeep; on failure leaves it to the caller: to close it may take
  /// as long as the peer likes. Throws ProtocolError if the peer's data is wrong (says which check failed),
  /// FileChangedError, ResourceError if the mapping failed. `where` names the descriptor in errors.
  static std::shared_ptr<const Region> adopt(UniqueFd&& fd, RegionKind kind, std::uint64_t size, const FileStamp& stamp,
                                             const std::string& where, Descriptor descriptor = Descriptor::kClose);

  /// Maps a region once more, which must have a descriptor, at other addresses and privately: the caller may write to
  /// it, and nobody else sees that. Each page that is written to becomes a copy; the others are the region's. The
  /// result keeps `source`; see device/private_memory.h for how to find it. Throws ResourceError. `where` names the
  /// memory in errors.
  static std::shared_ptr<const Region> map_private(const std::shared_ptr<const Region>& source,
                                                   const std::string& where);

  /// Opens a regular file read-only and maps it, as a kFile region. Throws NotFoundError, PermissionError,
  /// InvalidArgumentError (not a regular file).
  static std::shared_ptr<const Region> open_file(const std::string& path);

  /// Makes a recycled region: writable here, pre-faulted, with the seals of its kind. `name` shows up in
  /// /proc/PID/maps. Throws ResourceError, also if a cgroup's memory limit leaves less room (core/memory_limit.h).
  static std::shared_ptr<Region> make_recycled(std::uint64_t size, const char* name);

  /// Makes a kDevice region of exportable memory that `context` allocated, and whose content is written, or of memory
  /// that it imported from a peer.
  static std::shared_ptr<const Region> of_device(std::shared_ptr<Context> context, Buffer memory);

  RegionKind kind() const noexcept { return kind_; }
  std::uint64_t size() const noexcept { return size_; }
  /// Returns the mapping's start; null if this process made the region without mapping it (RegionWriter). For kDevice,
  /// the address on the device.
  const std::byte* data() const noexcept { return data_; }
  /// Returns the mapping's start for writing: for kRecycled in the process that made the region, and of map_private();
  /// else null.
  std::byte* writable() const noexcept { return writable_ ? const_cast<std::byte*>(data_) : nullptr; }
  bool contains(const void* pointer, std::uint64_t size) const noexcept;
  /// Returns the descriptor to pass on; -1 at a consumer that hasn't kept it.
  int descriptor() const noexcept { return fd_.get(); }
  const FileStamp& stamp() const noexcept { return stamp_; }
  /// kDevice: the context of its device; else null.
  const std::shared_ptr<Context>& context() const noexcept { return context_; }
  /// kDevice: the memory.
  BufferRef memory() const noexcept { return memory_.ref(); }
  /// Marks memory that another process may go on reading when all leases of it are over: one that held it has ended,
  /// and may have passed it on. Who made it frees it then, and doesn't use it again. Thread-safe.
  void never_reuse() const noexcept { reusable_.store(false, std::memory_order_relaxed); }
  bool reusable() const noexcept { return reusable_.load(std::memory_order_relaxed); }
  /// For kFile at its producer: throws FileChangedError, which says what changed, if the file's size or modification
  /// time differs from `stamp()`. A file that was renamed, unlinked, or given another mode hasn't changed. For other
  /// regions does nothing.
  void check_unchanged() const;

  /// Returns the attachment of `key`: what somebody made of this region, such as its registration with a network.
  /// Without one, calls `make` and attaches the result.
  ///
  /// Lifetime: the region owns its attachments and destroys them just before it gives up its memory, on the thread that
  /// drops its last owner. An attachment may use the memory. It must not own the region. Don't keep the result longer
  /// than the region.
  /// Key: compared by address. The attachment must own the object at that address, or another object could get the same
  /// address and find it.
  /// Threads: thread-safe. No lock is held while `make` runs, so it may call anything, this function too. Several
  /// threads that find no attachment each call `make`. One result is attached and returned to all of them; the others
  /// are destroyed. Later calls with the same key call nothing.
  /// Errors: those of `make`, which attach nothing. A null result is attached like any other.
  std::shared_ptr<void> attachment(const void* key, const std::function<std::shared_ptr<void>()>& make) const;

 private:
  friend class RegionWriter;
  friend class Arena;
  friend class PoolBlock;
  Region() = default;
  /// Maps the file's first `size` bytes, and lists the mapping if its content can change or it is private. Call it when
  /// `kind_` and `source_` are set.
  void map(int fd, std::uint64_t size, int protection, const std::string& where);
  ForkGuard made_in_;
  UniqueFd fd_;
  RegionKind kind_ = RegionKind::kFrozen;
  bool writable_ = false;
  mutable std::atomic<bool> reusable_{true};
  std::uint64_t size_ = 0;
  const std::byte* data_ = nullptr;
  std::uint64_t mapped_ = 0;  // bytes of address space to free
  FileStamp stamp_;
  std::string name_;
  std::shared_ptr<const Region> source_;  // of a private mapping
  MappingRecord record_;                  // of a mapping that is read-only here
  std::shared_ptr<Context> context_;
  Buffer memory_;
  mutable std::mutex attachments_mutex_;
  mutable std::vector<std::pair<const void*, std::shared_ptr<void>>>
      attachments_;  // few: a mapping, and one for each network
};

/// Returns the region itself, or a read-only mapping of it if this process has none. The mapping is made at the first
/// call and lasts as long as the region, or as it is held. Throws ResourceError. `where` names the memory in errors.
std::shared_ptr<const Region> readable(const std::shared_ptr<const Region>& region, const std::string& where);

/// Writes bytes once into a new memfd and freezes it: the one copy of ordinary heap data. It never maps the memfd, so
/// no page must be faulted in, and no writable mapping exists when it is sealed. Use it on one thread at a time.
class RegionWriter {
 public:
  explicit RegionWriter(const char* name);
  /// Appends `bytes` at the next 64-byte boundary. Returns the offset, which is never 0: the first 64 bytes stay
  /// unused. Throws ResourceError, SystemError (then nothing was appended), ForkError.
  std::uint64_t append(ByteSpan bytes);
  std::uint64_t size() const noexcept { return end_; }
  /// Seals the memfd and returns it as a region, whose size is size() rounded up to 64. The writer is empty afterwards.
  std::shared_ptr<const Region> freeze();

 private:
  ForkGuard made_in_;
  UniqueFd fd_;
  std::string name_;
  std::uint64_t end_ = 64;
};

}  // namespace crossdock::device
