#include "crossdock/device/pool.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/fork.h"
#include "crossdock/core/error.h"
#include "device/internal/pool_block.h"
#include "device/memfd.h"
#include "device/private_memory.h"
#include "device/region.h"

namespace crossdock::device {
namespace {

/// Rounds a size up to one of eight for each power of two, so that allocations of nearly the same size use the same
/// blocks. At most an eighth is wasted, and nothing where the size is a power of two.
std::uint64_t rounded(std::uint64_t size) noexcept {
  const std::uint64_t step = std::max(memfd::page_size(), std::bit_ceil(size) >> 4);
  return align_up(size, step);
}

constexpr std::uint64_t kLargest = std::uint64_t{1} << 46;  // of an allocation; a process has 2^47 bytes of addresses

}  // namespace

struct Pool::Impl {
  using Idle = std::list<std::unique_ptr<PoolBlock>>;
  /// A block that is in use: allocated, lent, or both.
  struct Used {
    std::unique_ptr<PoolBlock> block;
    std::uint64_t asked = 0;  // bytes that the owner asked for
    bool owned = true;        // false once the owner has freed it
    bool single_use = false;  // another process has it since a fork: it isn't used again
    std::uint32_t leases = 0;
  };
  using Blocks = std::map<const std::byte*, Used>;  // by their first address

  explicit Impl(const PoolOptions& given) : options(given), keep_idle(given.idle) {
    Forks& all = forks();
    const std::lock_guard lock(all.mutex);
    all.pools.push_back(this);
  }
  ~Impl() {
    Forks& all = forks();
    const std::lock_guard lock(all.mutex);
    std::erase(all.pools, this);
  }

  /// Returns the allocated block that contains these bytes, or the end. Call it with the lock held.
  Blocks::iterator find(const void* pointer, std::uint64_t size) {
    const auto* const at = static_cast<const std::byte*>(pointer);
    auto entry = used.upper_bound(at);
    if (entry == used.begin()) return used.end();
    --entry;
    const PoolBlock& block = *entry->second.block;
    const auto offset = static_cast<std::uint64_t>(at - entry->first);
    const bool inside = offset >= PoolBlock::kHeader && offset <= block.bytes() && size <= block.bytes() - offset;
    return inside && entry->second.owned ? entry : used.end();
  }
  /// Returns the allocated block whose memory starts at `pointer`, or the end. Call it with the lock held.
  Blocks::iterator find_start(const void* pointer) {
    const auto entry = used.find(static_cast<const std::byte*>(pointer) - PoolBlock::kHeader);
    return entry != used.end() && entry->second.owned ? entry : used.end();
  }

  /// Takes an idle block that has at least `bytes` bytes, and at most a quarter more. Call it with the lock held.
  std::unique_ptr<PoolBlock> take_idle(std::uint64_t bytes) {
    auto best = idle.end();
    for (auto entry = idle.begin(); entry != idle.end(); ++entry) {
      const std::uint64_t has = (*entry)->bytes();
      if (has < bytes || has - bytes > bytes / 4) continue;
      if (best == idle.end() || has < (*best)->bytes()) best = entry;
      if (has == bytes) break;
    }
    if (best == idle.end()) return nullptr;
    std::unique_ptr<PoolBlock> block = std::move(*best);
    idle.erase(best);
    stats.idle_bytes -= block->bytes();
    ++stats.reused;
    return block;
  }

  /// Counts a new block of `bytes` bytes, and moves the idle blocks that must be freed for it to `out`. Throws
  /// ResourceError if there is no room under the limit. Call it with the lock held.
  void count_new(std::uint64_t bytes, Idle* out) {
    if (options.limit != 0) {
      const std::uint64_t in_use = stats.bytes - stats.idle_bytes;
      if (bytes > options.limit || in_use > options.limit - bytes) {
        throw ResourceError("this Pool's limit is " + std::to_string(options.limit) + " bytes, of which " +
                            std::to_string(in_use) + " are in use, and " + std::to_string(bytes) +
                            " more were requested; free memory of it, or make it with a higher `limit`");
      }
      remove_idle(options.limit - bytes - in_use, out);
    }
    stats.bytes += bytes;
    ++stats.blocks;
    ++stats.made;
  }
  void uncount(std::uint64_t bytes) noexcept {
    stats.bytes -= bytes;
    --stats.blocks;
  }

  /// Moves idle blocks to `out`, the one that was freed first first, until at most `keep` bytes are left. Call it with
  /// the lock held, and drop them without it.
  void remove_idle(std::uint64_t keep, Idle* out) noexcept {
    while (stats.idle_bytes > keep) {
      const std::uint64_t bytes = idle.back()->bytes();
      stats.idle_bytes -= bytes;
      uncount(bytes);
      out->splice(out->begin(), idle, std::prev(idle.end()));
    }
  }

  /// Uses a block again, or frees it: nobody owns or reads it. Call it without the lock.
  void recycle(Used entry) noexcept {
    PoolBlock& block = *entry.block;
    const std::uint64_t bytes = block.bytes();
    // Frees the private copies of pages, which takes milliseconds for a large block: so no lock is held.
    const auto region = block.region();
    const bool reusable = !entry.single_use && (region == nullptr || region->reusable());
    const bool usable = reusable && (!block.is_private() || block.make_shared());
    Idle freed;
    try {
      if (usable) freed.push_back(std::move(entry.block));
    } catch (const std::bad_alloc&) {
    }
    const std::lock_guard lock(mutex);
    if (freed.empty()) return uncount(bytes);  // `entry` frees it
    stats.idle_bytes += bytes;
    idle.splice(idle.begin(), freed);
    remove_idle(keep_idle, &freed);
  }

  void end_lease(const std::byte* start) noexcept {
    Used entry;
    {
      const std::lock_guard lock(mutex);
      const auto found = used.find(start);
      if (--found->second.leases != 0 || found->second.owned) return;
      entry = std::move(found->second);
      used.erase(found);
    }
    recycle(std::move(entry));
  }

  // Around a fork, so that both processes have the memory as it was, each with its own writes.
  void before_fork() noexcept {
    mutex.lock();
    for (auto& [start, entry] : used) {
      try {
        if (!entry.block->is_private()) entry.block->make_private();
        entry.single_use = true;
      } catch (const std::exception&) {
        // There are no mappings left. The child doesn't get this block: an access is SIGSEGV there.
      }
    }
  }
  void after_fork_in_child() noexcept {
    for (auto& [start, entry] : used) {
      entry.block->become_inherited();
      entry.leases = 0;  // those are the parent's
    }
    std::erase_if(used, [](const auto& entry) { return !entry.second.owned || !entry.second.single_use; });
    for (auto& block : idle) block->become_inherited();
    idle.clear();
    stats = {};
    for (const auto& [start, entry] : used) {
      stats.bytes += entry.block->bytes();
      ++stats.blocks;
    }
    mutex.unlock();
  }

  /// All pools of the process, for forks.
  struct Forks {
    std::mutex mutex;
    std::vector<Impl*> pools;
  };
  static Forks& forks() {
    static auto* const all = [] {  // never destroyed: a process can fork while it ends
      ::pthread_atfork(
          [] {
            forks().mutex.lock();
            for (Impl* pool : forks().pools) pool->before_fork();
          },
          [] {
            for (Impl* pool : forks().pools) pool->mutex.unlock();
            forks().mutex.unlock();
          },
          [] {
            for (Impl* pool : forks().pools) pool->after_fork_in_child();
            forks().mutex.unlock();
          });
      return new Forks;
    }();
    return *all;
  }

  const PoolOptions options;
  mutable std::mutex mutex;
  Blocks used;
  Idle idle;  // the one that was freed last comes first
  std::uint64_t keep_idle;
  PoolStats stats;  // all but lent_bytes
};

std::shared_ptr<Pool> Pool::make(const PoolOptions& options) { return std::shared_ptr<Pool>(new Pool(options)); }
Pool::Pool(const PoolOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Pool::~Pool() = default;

std::shared_ptr<std::byte> Pool::allocate(std::uint64_t size) {
  auto pool = shared_from_this();
  std::byte* const memory = allocate_unowned(size);
  return {memory, [pool = std::move(pool)](const std::byte* pointer) { pool->free(pointer); }};
}

std::byte* Pool::allocate_unowned(std::uint64_t size, Content content) {
  if (size > kLargest) {
    throw ResourceError("a Pool can't allocate " + std::to_string(size) +
                        " bytes: more than a process's address space");
  }
  // A page more than the data, so that a power of two isn't rounded up to the next size for the header.
  const std::uint64_t bytes = rounded(std::max<std::uint64_t>(size, 1)) + memfd::page_size();
  Impl::Used entry;
  Impl::Idle freed;
  {
    const std::lock_guard lock(impl_->mutex);
    entry.block = impl_->take_idle(bytes);
    if (!entry.block) impl_->count_new(bytes, &freed);
  }
  if (entry.block) {
    if (content == Content::kZeros) std::memset(entry.block->data(), 0, size);
  } else {
    freed.clear();
    try {
      entry.block = std::make_unique<PoolBlock>(bytes, content == Content::kAny);
    } catch (...) {
      const std::lock_guard lock(impl_->mutex);
      impl_->uncount(bytes);
      throw;
    }
  }
  entry.asked = size;
  std::byte* const data = entry.block->data();
  const std::byte* const start = entry.block->start();
  const std::lock_guard lock(impl_->mutex);
  impl_->used.emplace(start, std::move(entry));
  return data;
}

bool Pool::free(const void* pointer) noexcept {
  if (reinterpret_cast<std::uintptr_t>(pointer) % memfd::page_size() != PoolBlock::kHeader) return false;
  Impl::Used entry;
  {
    const std::lock_guard lock(impl_->mutex);
    const auto found = impl_->find_start(pointer);
    if (found == impl_->used.end()) return false;
    if (found->second.leases != 0) {  // its readers free it
      found->second.owned = false;
      found->second.block->drop_private_pages();
      return true;
    }
    entry = std::move(found->second);
    impl_->used.erase(found);
  }
  impl_->recycle(std::move(entry));
  return true;
}

std::optional<std::uint64_t> Pool::size_of(const void* pointer) const noexcept {
  if (reinterpret_cast<std::uintptr_t>(pointer) % memfd::page_size() != PoolBlock::kHeader) return std::nullopt;
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->find_start(pointer);
  if (found == impl_->used.end()) return std::nullopt;
  return found->second.block->size();
}

bool Pool::contains(const void* pointer, std::uint64_t size) const noexcept {
  const std::lock_guard lock(impl_->mutex);
  return impl_->find(pointer, size) != impl_->used.end();
}

std::optional<Pool::Lease> Pool::lend(const void* pointer, std::uint64_t size) {
  auto holder = std::make_shared<std::pair<std::shared_ptr<Pool>, ForkGuard>>(shared_from_this(), ForkGuard());

  std::shared_ptr<const Region> region;
  const std::byte* start = nullptr;
  {
    // Held throughout, as another thread may lend the block, or fork. Only memory with pages that were never used takes
    // more than a moment.
    const std::lock_guard lock(impl_->mutex);
    const auto found = impl_->find(pointer, size);
    if (found == impl_->used.end() || found->second.block->inherited()) return std::nullopt;
    PoolBlock& block = *found->second.block;
    block.back();
    if (!block.is_private()) block.make_private();
    region = block.region();
    start = block.start();
    ++found->second.leases;
  }
  std::shared_ptr<const Region> lease(region.get(), [holder = std::move(holder), start](const Region*) {
    if (!holder->second.in_child()) holder->first->impl_->end_lease(start);
  });
  if (pages_written(pointer, size)) return std::nullopt;
  return Lease{std::move(lease), static_cast<std::uint64_t>(static_cast<const std::byte*>(pointer) - start)};
}

PoolStats Pool::stats() const {
  const std::lock_guard lock(impl_->mutex);
  PoolStats stats = impl_->stats;
  for (const auto& [start, entry] : impl_->used) {
    if (entry.leases != 0) stats.lent_bytes += entry.block->bytes();
  }
  return stats;
}

std::uint64_t Pool::trim(std::uint64_t keep) noexcept {
  Impl::Idle freed;
  const std::lock_guard lock(impl_->mutex);
  const std::uint64_t before = impl_->stats.idle_bytes;
  impl_->remove_idle(keep, &freed);
  return before - impl_->stats.idle_bytes;
}

void Pool::close() noexcept {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->keep_idle = 0;
  }
  trim();
}

}  // namespace crossdock::device
