#include "session/region_pool.h"

#include <algorithm>
#include <iterator>

#include "crossdock/core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kPage = 4096;
// Small batches share a region: descriptors and mappings are scarcer than memory.
constexpr std::uint64_t kSmallestRegion = 4ull << 20;

}  // namespace

std::optional<RegionPool::Block> RegionPool::carve(std::uint64_t size) {
  for (std::uint32_t i = 0; i < slabs_.size(); ++i) {
    Slab& slab = slabs_[i];
    const auto fits = [&](const Range& range) { return range.size >= size; };
    if (std::ranges::none_of(slab.free, fits)) continue;
    // Between n blocks lie n + 1 free ranges at most: from here on, none of them needs memory to come back.
    if (const std::size_t most = slab.out + 2; slab.free.capacity() < most) slab.free.reserve(2 * most);
    const auto fit = std::ranges::find_if(slab.free, fits);
    const Block block{i, fit->offset, size};
    if (fit->size > size) {
      *fit = {fit->offset + size, fit->size - size};
    } else {
      slab.free.erase(fit);
    }
    ++slab.out;
    return block;
  }
  return std::nullopt;
}

// Regions of which nothing is out.
std::uint64_t RegionPool::idle_bytes() const {
  std::uint64_t bytes = 0;
  for (const Slab& slab : slabs_) {
    if (slab.out == 0) bytes += slab.region->size();
  }
  return bytes;
}

std::optional<RegionPool::Block> RegionPool::allocate(std::uint64_t size, std::uint64_t kept) {
  size = align_up(std::max<std::uint64_t>(size, kAlignment), kAlignment);
  std::unique_lock lock(mutex_);
  const auto fits = [&] { return out_ + size <= limit_ || out_ <= kept + size; };
  const auto may_go_on = [&] { return stopped_ || by_value_ || fits(); };
  if (!may_go_on()) {
    waiting_ = true;
    lock.unlock();
    on_starved_();  // the I/O thread may be asleep, and has a deadline to watch now
    lock.lock();
    room_.wait(lock, may_go_on);
    waiting_ = false;
  }
  if (stopped_) return std::nullopt;
  if (!fits()) return Block{};
  std::optional<Block> block = carve(size);
  if (!block) {
    if (slabs_.size() > 0xFFFF) throw ResourceError("a live stream has used up its 65,536 regions of memory");
    // Idle regions are too small: batches grow. A region as large as all of those keeps the sum of what lies idle in
    // proportion to the largest batch.
    const std::uint64_t idle = idle_bytes();
    // Faulting a region in takes long; only this thread adds slabs, so the lock needn't be held meanwhile.
    lock.unlock();
    const std::uint64_t bytes = std::max({kSmallestRegion, align_up(size + kAlignment, kPage), idle});
    auto region = device::Region::make_recycled(bytes, "crossdock-live");
    lock.lock();
    slabs_.push_back({std::move(region), {{kAlignment, bytes - kAlignment}}, 0});
    block = carve(size);
  }
  out_ += size;
  return block;
}

void RegionPool::give_back(const Block& block) noexcept {
  {
    const std::lock_guard lock(mutex_);
    auto& free = slabs_[block.region].free;
    --slabs_[block.region].out;
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
      free.insert(after, {block.offset, block.size});  // carve() has made room for it
    }
    out_ -= block.size;
    by_value_ = false;
  }
  room_.notify_one();
}

void RegionPool::pass_by_value() noexcept {
  {
    const std::lock_guard lock(mutex_);
    by_value_ = true;
  }
  room_.notify_one();
}

void RegionPool::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  room_.notify_all();
}

void RegionPool::clear() noexcept {
  std::vector<Slab> dropped;  // unmapped without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(slabs_);
}

bool RegionPool::starved() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

std::shared_ptr<device::Region> RegionPool::region(std::uint32_t index) const {
  const std::lock_guard lock(mutex_);
  return slabs_[index].region;
}

}  // namespace crossdock::session
