#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "device/memfd.h"
#include "device/sim.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // since Linux 5.14
#endif

namespace crossdock::device::sim {

namespace {

constexpr std::uint64_t kFilledWhole = std::uint64_t{1} << 20;
constexpr std::uint64_t kFilledEnd = std::uint64_t{64} << 10;
constexpr std::uint64_t kFilledLine = 64;
constexpr std::uint64_t kMostQuarantined = std::uint64_t{16} << 30;  // of addresses without memory behind them
constexpr std::size_t kMostRanges = 512;

std::byte* map(int fd, std::uint64_t size, int rights, int flags) {
  void* start = ::mmap(nullptr, size, rights, flags, fd, 0);
  if (start == MAP_FAILED) throw_errno(errno, "mapping " + std::to_string(size) + " bytes of the sim driver");
  return static_cast<std::byte*>(start);
}

/// Populates the pages, so that measured work doesn't pay for their first touch. If the kernel can't do it, the first
/// touch populates them.
void populate(std::byte* start, std::uint64_t size) noexcept { ::madvise(start, size, MADV_POPULATE_WRITE); }

}  // namespace

const int kShareSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

void fill_with_pattern(std::byte* start, std::uint64_t size) noexcept {
  const auto value = std::to_integer<int>(kSimPattern);
  if (size <= kFilledWhole) {
    if (size != 0) std::memset(start, value, size);
    return;
  }
  std::memset(start, value, kFilledEnd);
  std::memset(start + (size - kFilledEnd), value, kFilledEnd);
  const std::uint64_t step = memfd::page_size();
  for (std::uint64_t at = kFilledEnd; at + kFilledLine <= size; at += step) std::memset(start + at, value, kFilledLine);
}

// Block

Block::Block(const UniqueFd& fd, std::uint64_t size, Pages pages)
    : alias_(map(fd.get(), size, PROT_READ | PROT_WRITE, MAP_SHARED)), size_(size) {
  if (pages == Pages::kPopulated) populate(alias_, size_);
}

Block::~Block() {
  if (!made_in_.in_child()) ::munmap(alias_, size_);
}

std::shared_ptr<Block> BlockPool::take(std::uint64_t size) {
  std::unique_ptr<Block> block;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = blocks_.find(size); found != blocks_.end()) {
      block = std::move(found->second);
      blocks_.erase(found);
      kept_ -= size;
    }
  }
  if (block == nullptr) {
    const UniqueFd fd = memfd::create(kMemoryName);
    memfd::resize(fd, size, kMemoryName);
    memfd::fill_holes(fd, 0, size, kMemoryName);
    block = std::make_unique<Block>(fd, size, Block::Pages::kPopulated);
  }
  fill_with_pattern(block->alias(), size);
  return {block.release(), [pool = shared_from_this()](Block* back) { pool->put(std::unique_ptr<Block>(back)); }};
}

void BlockPool::put(std::unique_ptr<Block> block) noexcept {
  if (block->in_child()) {
    (void)block.release();  // the parent's block; another thread of it may have held the lock at the fork
    return;
  }
  block->log = AccessLog();
  block->kept = Clock();
  block->views = 0;
  const std::lock_guard lock(mutex_);
  if (block->size() > most_ - std::min(most_, kept_)) return;
  const std::uint64_t size = block->size();
  try {
    blocks_.emplace(size, std::move(block));
    kept_ += size;
  } catch (const std::bad_alloc&) {  // then it is unmapped
  }
}

void BlockPool::limit(std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  most_ = most;
  while (kept_ > most_) {
    kept_ -= blocks_.begin()->first;
    blocks_.erase(blocks_.begin());
  }
}

// Quarantine

Quarantine::~Quarantine() {
  if (made_in_.in_child()) return;
  for (const Range& range : ranges_) ::munmap(range.start, range.size);
}

void Quarantine::add(std::byte* start, std::uint64_t size) noexcept {
  // Replaces the mapping in one step: between munmap() and a new mmap(), another thread could get the addresses.
  const void* kept = ::mmap(start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (kept == MAP_FAILED) {
    ::munmap(start, size);
    return;
  }
  const std::lock_guard lock(mutex_);
  try {
    ranges_.push_back({start, size});
  } catch (const std::bad_alloc&) {
    ::munmap(start, size);
    return;
  }
  bytes_ += size;
  while (ranges_.size() > 1 && (bytes_ > kMostQuarantined || ranges_.size() > kMostRanges)) {
    ::munmap(ranges_.front().start, ranges_.front().size);
    bytes_ -= ranges_.front().size;
    ranges_.pop_front();
  }
}

// View

View::View(std::shared_ptr<Block> block, std::uint64_t size, Device device, MemoryKind kind,
           std::shared_ptr<Quarantine> quarantine)
    : block_(std::move(block)), size_(size), device_(device), kind_(kind), quarantine_(std::move(quarantine)) {
  const std::uint64_t guard = memfd::page_size();
  const std::uint64_t whole = block_->size() + 2 * guard;
  std::byte* start = map(-1, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  // With an old size of 0, mremap() maps the same pages a second time, and needs no descriptor.
  if (memfd::remap(block_->alias(), 0, block_->size(), MREMAP_MAYMOVE | MREMAP_FIXED, start + guard) == MAP_FAILED ||
      (!host_visible() && ::mprotect(start + guard, block_->size(), PROT_NONE) != 0)) {
    const int error = errno;
    ::munmap(start, whole);
    throw_errno(error, "mapping " + std::to_string(size) + " bytes of the sim driver once more");
  }
  if (host_visible()) populate(start + guard, block_->size());
  address_ = start + guard;
}

View::~View() {
  if (made_in_.in_child()) return;
  const std::uint64_t guard = memfd::page_size();
  quarantine_->add(address_ - guard, block_->size() + 2 * guard);
}

View::Edges View::edges(std::uint64_t begin, std::uint64_t end) const noexcept {
  const std::uint64_t page = memfd::page_size();
  // The bytes behind the allocation's end have no owner, so its last page counts as whole.
  const std::uint64_t to = end >= size_ ? block_->size() : end;
  const std::uint64_t first = align_up(begin, page);
  const std::uint64_t last = to / page * page;
  if (first >= last) return {begin, end, end, end};
  return {begin, std::min(first, end), std::min(last, end), end};
}

bool View::protect() {
  const std::uint64_t page = memfd::page_size();
  const auto pages = static_cast<std::size_t>(block_->size() / page);
  constexpr auto kAll = static_cast<std::uint8_t>(PROT_READ | PROT_WRITE);
  std::vector<std::uint8_t> wanted(pages, kAll);
  bool any = false;
  for (const Access& access : block_->log.all()) {
    if (access.kind == AccessKind::kAllocate || access.seen()) continue;
    const Edges parts = edges(access.begin, access.end);
    const auto rights = static_cast<std::uint8_t>(access.writes() ? PROT_NONE : PROT_READ);
    const std::uint64_t last = align_up(parts.last_page, page) / page;
    for (std::uint64_t at = align_up(parts.first_page, page) / page; at < last; ++at) {
      wanted[at] = std::min(wanted[at], rights);
      any = true;
    }
  }
  if (rights_.empty()) {
    if (!any) return false;
    rights_.assign(pages, kAll);
  }
  for (std::size_t from = 0; from < pages;) {
    std::size_t to = from + 1;
    while (to < pages && wanted[to] == wanted[from]) ++to;
    const auto begin = rights_.begin() + static_cast<std::ptrdiff_t>(from);
    const auto end = rights_.begin() + static_cast<std::ptrdiff_t>(to);
    if (std::any_of(begin, end, [&](std::uint8_t right) { return right != wanted[from]; })) {
      // Fails only if the process can't have more mappings. Then fewer bugs are found, and nothing breaks.
      ::mprotect(address_ + from * page, (to - from) * page, wanted[from]);
    }
    from = to;
  }
  rights_ = std::move(wanted);
  return any;
}

}  // namespace crossdock::device::sim
