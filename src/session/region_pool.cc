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
    auto& free = slabs_[i].free;
    const auto fit = std::ranges::find_if(free, [&](const auto& range) { return range.second >= size; });
    if (fit == free.end()) continue;
    const Block block{i, fit->first, size};
    const std::uint64_t rest = fit->second - size;
    free.erase(fit);
    if (rest > 0) free.emplace(block.offset + size, rest);
    return block;
  }
  return std::nullopt;
}

// Regions of which nothing is out.
std::uint64_t RegionPool::idle_bytes() const {
  std::uint64_t bytes = 0;
  for (const Slab& slab : slabs_) {
    const bool idle = slab.free.size() == 1 && slab.free.begin()->second == slab.region->size() - kAlignment;
    if (idle) bytes += slab.region->size();
  }
  return bytes;
}

std::optional<RegionPool::Block> RegionPool::allocate(std::uint64_t size, std::uint64_t kept) {
  size = align_up(std::max<std::uint64_t>(size, kAlignment), kAlignment);
  std::unique_lock lock(mutex_);
  const auto may_go_on = [&] { return stopped_ || out_ + size <= limit_ || out_ <= kept + size; };
  if (!may_go_on()) {
    waiting_ = true;
    lock.unlock();
    on_starved_();  // the I/O thread may be asleep, and has a deadline to watch now
    lock.lock();
    room_.wait(lock, may_go_on);
    waiting_ = false;
  }
  if (stopped_) return std::nullopt;
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
    slabs_.push_back({std::move(region), {{kAlignment, bytes - kAlignment}}});
    block = carve(size);
  }
  out_ += size;
  return block;
}

void RegionPool::give_back(const Block& block) noexcept {
  {
    const std::lock_guard lock(mutex_);
    auto& free = slabs_[block.region].free;
    auto [at, inserted] = free.emplace(block.offset, block.size);
    if (const auto after = std::next(at); after != free.end() && at->first + at->second == after->first) {
      at->second += after->second;
      free.erase(after);
    }
    if (at != free.begin()) {
      if (const auto before = std::prev(at); before->first + before->second == at->first) {
        before->second += at->second;
        free.erase(at);
      }
    }
    out_ -= block.size;
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
