#include "session/region_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kMaxRegions = 0x10000;

// Small batches share a region: descriptors and mappings are scarcer than memory. The size depends on the limit, so
// that a consumer with a low limit can still have many streams.
std::uint64_t smallest_region(std::uint64_t limit) noexcept {
  return std::clamp<std::uint64_t>(limit / 256 / kPage * kPage, kPage, 4ull << 20);
}

}  // namespace

// Takes a block from an existing region.
std::optional<RegionPool::Block> RegionPool::take_block(std::uint64_t size) {
  for (std::uint32_t i = 0; i < slabs_.size(); ++i) {
    Slab& slab = slabs_[i];
    const auto fits = [&](const Range& range) { return range.size >= size; };
    if (std::ranges::none_of(slab.free, fits)) continue;
    // Between n blocks there are at most n + 1 free ranges. With this capacity, freeing a block never allocates.
    if (const std::size_t most = slab.out + 2; slab.free.capacity() < most) slab.free.reserve(2 * most);
    const auto fit = std::ranges::find_if(slab.free, fits);
    const Block block{i, fit->offset, size};
    if (fit->size > size) {
      *fit = {fit->offset + size, fit->size - size};
    } else {
      slab.free.erase(fit);
    }
    ++slab.out;
    ++blocks_out_;
    out_ += size;
    waiting_ = false;
    return block;
  }
  return std::nullopt;
}

// Size of the regions without a block in use.
std::uint64_t RegionPool::idle_bytes() const {
  std::uint64_t bytes = 0;
  for (const Slab& slab : slabs_) {
    if (slab.region && slab.out == 0) bytes += slab.region->size();
  }
  return bytes;
}

// Returns how large a new region for a block of `need` bytes may be, and counts these bytes for the consumer. 0: not
// allowed.
std::uint64_t RegionPool::grant(std::uint64_t need, const Kept& kept) {
  ByteBudget& lent = consumer_->lent();
  std::uint64_t want = std::max(smallest_region(lent.limit()), need);
  {
    const std::lock_guard lock(mutex_);
    // The idle regions are too small, because batches grow. A new region as large as all idle ones together keeps the
    // idle memory in proportion to the largest batch.
    want = std::max(want, idle_bytes());
  }
  if (lent.take(want)) return want;
  if (lent.take(need)) return need;
  drop_regions(false);
  if (lent.take(need)) return need;
  const std::lock_guard lock(mutex_);
  const bool little = blocks_out_ <= kept.blocks + 1 || out_ <= kept.bytes + need;
  if (!little || lent.used() - regions_ > lent.limit()) return 0;
  lent.take_beyond(need);
  return need;
}

std::optional<RegionPool::Block> RegionPool::allocate(std::uint64_t size, const Kept& kept) {
  size = align_up(std::max<std::uint64_t>(size, kBufferAlignment), kBufferAlignment);
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return std::nullopt;
    if (const std::optional<Block> block = take_block(size)) return block;
  }
  const std::uint64_t bytes = grant(align_up(size + kBufferAlignment, kPage), kept);
  if (bytes == 0) {
    const std::lock_guard lock(mutex_);
    if (stopped_) return std::nullopt;
    if (const std::optional<Block> block = take_block(size)) return block;  // freed meanwhile
    waiting_ = !by_value_;
    return by_value_ ? std::optional(Block{}) : std::nullopt;
  }
  try {
    // Slow, because it faults in the region's pages: so no lock is held.
    add(device::Region::make_recycled(bytes, "crossdock-live"));
  } catch (...) {
    consumer_->give_lent(bytes);
    throw;
  }
  const std::lock_guard lock(mutex_);
  return stopped_ ? std::nullopt : take_block(size);
}

void RegionPool::add(std::shared_ptr<device::Region> region) {
  const std::uint64_t bytes = region->size();
  {
    const std::lock_guard lock(mutex_);
    const auto gone = [](const Slab& slab) { return !slab.region && !slab.dropped; };
    auto slab = std::ranges::find_if(slabs_, gone);
    if (slab == slabs_.end()) {
      if (slabs_.size() == kMaxRegions) throw ResourceError("a live stream has used up its 65,536 regions of memory");
      dropped_.reserve(slabs_.size() + 1);  // so that dropping a region never allocates
      slabs_.emplace_back();
      slab = std::prev(slabs_.end());
    }
    slab->free.assign(1, {kBufferAlignment, bytes - kBufferAlignment});
    slab->region = std::move(region);
    regions_ += bytes;
    if (!stopped_) return;
  }
  drop_regions(false);  // stop() was called meanwhile
}

std::shared_ptr<device::Region> RegionPool::drop_one(bool all) noexcept {
  const std::lock_guard lock(mutex_);
  const auto to_drop = [&](const Slab& slab) { return slab.region && (all || slab.out == 0); };
  const auto slab = std::ranges::find_if(slabs_, to_drop);
  if (slab == slabs_.end()) return nullptr;
  slab->free.clear();
  slab->dropped = true;
  dropped_.push_back(static_cast<std::uint32_t>(slab - slabs_.begin()));
  any_dropped_.store(true, std::memory_order_release);
  regions_ -= slab->region->size();
  return std::move(slab->region);
}

// Drops the regions without a block in use, or all regions. They are destroyed without the lock.
void RegionPool::drop_regions(bool all) noexcept {
  while (std::shared_ptr<device::Region> region = drop_one(all)) {
    const std::uint64_t bytes = region->size();
    region.reset();
    consumer_->give_lent(bytes);
  }
}

bool RegionPool::free(const Block& block) noexcept {
  bool waiting = false;
  bool unused = false;
  {
    const std::lock_guard lock(mutex_);
    Slab& slab = slabs_[block.region];
    if (!slab.region) return false;  // after clear()
    auto& free = slab.free;
    --slab.out;
    const auto after = std::ranges::lower_bound(free, block.offset, {}, &Range::offset);
    const bool joins_after = after != free.end() && block.offset + block.size == after->offset;
    const bool joins_before =
        after != free.begin() && std::prev(after)->offset + std::prev(after)->size == block.offset;
    if (joins_before) {
      std::prev(after)->size += block.size + (joins_after ? after->size : 0);
      if (joins_after) free.erase(after);
    } else if (joins_after) {
      *after = {block.offset, block.size + after->size};
    } else {
      free.insert(after, {block.offset, block.size});  // take_block() has reserved capacity for it
    }
    out_ -= block.size;
    --blocks_out_;
    by_value_ = false;
    waiting = waiting_;
    unused = stopped_ && slab.out == 0;
  }
  if (unused) drop_regions(false);
  return waiting;
}

void RegionPool::pass_by_value() noexcept {
  const std::lock_guard lock(mutex_);
  by_value_ = true;
}

void RegionPool::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    waiting_ = false;
  }
  drop_regions(false);
}

void RegionPool::clear() noexcept {
  stop();
  drop_regions(true);
}

bool RegionPool::starved() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

std::shared_ptr<device::Region> RegionPool::region(std::uint32_t index) const {
  const std::lock_guard lock(mutex_);
  return slabs_[index].region;
}

void RegionPool::take_dropped(std::vector<std::uint32_t>* indices) {
  const std::lock_guard lock(mutex_);
  indices->insert(indices->end(), dropped_.begin(), dropped_.end());
  for (const std::uint32_t index : dropped_) slabs_[index].dropped = false;
  dropped_.clear();
  any_dropped_.store(false, std::memory_order_relaxed);
}

}  // namespace crossdock::session
