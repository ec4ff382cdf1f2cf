#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "crossdock/core/export.h"
#include "crossdock/core/impl_ptr.h"

namespace crossdock::device {

class Region;

/// Limits of a Pool.
struct PoolOptions {
  /// The most bytes that the pool may have, used and idle. 0: no limit.
  std::uint64_t limit = 0;
  /// The most bytes of unused memory that it keeps for the next allocations.
  std::uint64_t idle = std::uint64_t{1} << 30;
};

/// What a pool has. All bytes are those of whole blocks: of the memory that the system has given.
struct PoolStats {
  std::uint64_t blocks = 0;      ///< Blocks of memory, used and idle.
  std::uint64_t bytes = 0;       ///< Their bytes.
  std::uint64_t idle_bytes = 0;  ///< Of these, the bytes of blocks that the next allocations use.
  std::uint64_t lent_bytes = 0;  ///< Of these, the bytes of blocks that other processes may be reading.
  std::uint64_t made = 0;        ///< Allocations for which new memory was needed, since the pool was made.
  std::uint64_t reused = 0;      ///< Allocations that used memory again.
};

/// Shared memory that is used again. New shared memory costs as much as a copy through a socket, because the kernel
/// clears each page and maps it at the first access; memory that was used before costs neither. So allocate what other
/// processes are to read from a pool, and let the pool take it again.
///
/// Each allocation is a block: a memory file of its own, which can be lent to another process without showing it any
/// other allocation. A block is used again when its owner has freed it and nobody reads it any more. A block that a
/// process held when it ended is freed instead: that process may have passed it on. A block that was lent goes to
/// processes of this user only (docs/explanation/security.md).
///
/// Memory that was lent is copied on write: the owner may go on writing to it, and the readers see what it was then.
///
/// After a fork both processes have the memory as it was, each with its own writes, as with any other memory. The child
/// can free it, and allocate new memory. Blocks that were in use at the fork aren't used again.
///
/// Thread-safe. No call waits for another process.
class CROSSDOCK_EXPORT Pool : public std::enable_shared_from_this<Pool> {
 public:
  /// Makes an empty pool. Only the pools of a Runtime are recognized when what lies in them is published:
  /// session::Runtime::make_pool().
  static std::shared_ptr<Pool> make(const PoolOptions& options = {});
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Allocates memory, aligned to 64 bytes and not initialized, which is freed with the last owner of the result. The
  /// memory keeps the pool. Throws ResourceError (over the pool's limit, or the system has no memory left).
  std::shared_ptr<std::byte> allocate(std::uint64_t size);

  /// What the memory of allocate_unowned() holds.
  enum class Content : std::uint8_t {
    kAny,    ///< Anything that this process has had there before.
    kZeros,  ///< Zeros.
  };
  /// Allocates such memory without an owner, for hooks of other allocators: pass it to free(). It doesn't keep the
  /// pool. With kZeros, pages that were never used take memory at their first access only. Throws as allocate().
  std::byte* allocate_unowned(std::uint64_t size, Content content = Content::kAny);
  /// Frees memory of allocate_unowned(). Returns false, and does nothing, if `pointer` isn't the start of memory that
  /// this pool has allocated. Costs nothing but a comparison for most pointers that aren't.
  bool free(const void* pointer) noexcept;
  /// Returns the bytes that memory of allocate_unowned() has, which can be more than were asked for; nothing for other
  /// pointers.
  std::optional<std::uint64_t> size_of(const void* pointer) const noexcept;
  /// Returns true if these bytes are in one allocation that wasn't freed yet.
  bool contains(const void* pointer, std::uint64_t size) const noexcept;

  /// Memory that was lent. It isn't used again before the last owner of `region` is dropped, on any thread.
  struct Lease {
    std::shared_ptr<const Region> region;  ///< The whole block, of RegionKind::kRecycled (src/device/region.h).
    std::uint64_t offset = 0;              ///< Of the first byte in it.
  };
  /// Lends the block that contains these bytes. From now on the block's owner has a private copy of each page that it
  /// writes to, and the region stays as it is. Returns nothing if they aren't in memory of this pool, or if they were
  /// written to since the block was lent before: then copy them. The caller keeps the memory allocated meanwhile.
  /// Throws ResourceError and SystemError, and then nothing was lent.
  std::optional<Lease> lend(const void* pointer, std::uint64_t size);

  /// Returns what the pool has now.
  PoolStats stats() const;
  /// Frees idle memory until at most `keep` bytes of it are left. Returns the bytes that were freed.
  std::uint64_t trim(std::uint64_t keep = 0) noexcept;
  /// Keeps no idle memory from now on, and frees what there is. Memory that is in use stays valid.
  void close() noexcept;

 private:
  struct Impl;
  explicit Pool(const PoolOptions& options);
  detail::ImplPtr<Impl> impl_;
};

}  // namespace crossdock::device
