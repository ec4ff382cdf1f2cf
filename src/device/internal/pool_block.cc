#include "device/internal/pool_block.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "core/memory_limit.h"
#include "core/release.h"
#include "crossdock/core/error.h"
#include "device/leak.h"
#include "device/memfd.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4  // since Linux 5.7, and of shared mappings since 5.13
#endif

namespace crossdock::device {
namespace {

constexpr const char* kPoolName = "crossdock-pool";
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

[[noreturn]] void fail_mapping(std::uint64_t bytes) {
  throw ResourceError("mapping " + std::to_string(bytes) +
                      " bytes of a pool: " + std::generic_category().message(errno) +
                      "; check the limits: ulimit -v and the number of mappings (vm.max_map_count)");
}

void* map(void* at, std::uint64_t bytes, int protection, int flags, int fd) noexcept {
  void* const start = ::mmap(at, bytes, protection, flags, fd, 0);
  if (start != MAP_FAILED || errno != ENOMEM || at != nullptr || !wait_for_released()) return start;
  return ::mmap(at, bytes, protection, flags, fd, 0);
}

}  // namespace

PoolBlock::PoolBlock(std::uint64_t bytes, bool backed) : bytes_(bytes) {
  const UniqueFd fd = memfd::create(kPoolName);
  memfd::resize(fd, bytes, kPoolName);
  if (backed) {
    check_memory_room(bytes, "an allocation in a Pool");
    memfd::fill_holes(fd, 0, bytes, kPoolName);
  }
  void* const start = map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get());
  if (start == MAP_FAILED) fail_mapping(bytes);
  start_ = static_cast<std::byte*>(start);
  try {
    // A child gets the memory in the state private, see Pool.
    if (::madvise(start, bytes, MADV_DONTFORK) != 0) throw_errno(errno, "keeping a pool's memory from forked children");
    // Where the system grants huge pages to those who ask for them, a large block is a few pages instead of thousands.
    // Elsewhere the call fails, or changes nothing.
    if (bytes >= kHugePage) static_cast<void>(::madvise(start, bytes, MADV_HUGEPAGE));
    memfd::seal(fd, memfd::kRecycledSeals, kPoolName);
    fd_ = memfd::reopen_read_only(fd, kPoolName);
  } catch (...) {
    ::munmap(start, bytes);
    throw;
  }
}

PoolBlock::~PoolBlock() {
  if (start_ != nullptr) release_memory(start_, bytes_, std::move(fd_), bytes_);
}

void PoolBlock::back() const {
  const UniqueFd& fd = region_ ? region_->fd_ : fd_;
  if (memfd::fully_backed(fd, bytes_, kPoolName)) return;
  check_memory_room(bytes_, "lending memory of a Pool");
  memfd::fill_holes(memfd::reopen_writable(fd, kPoolName), 0, bytes_, kPoolName);
}

void PoolBlock::make_private() {
  std::shared_ptr<Region> region(new Region);
  region->kind_ = RegionKind::kRecycled;
  region->name_ = kPoolName;
  region->size_ = bytes_;
  // A new writable mapping can't be made, since the file is sealed against it. The mapping that there is can be moved
  // or copied. Moves its page tables, so that the region has no page to fault in. The mapping at the old addresses
  // stays, so no other thread finds them unmapped: its next access maps the page again.
  void* shared = memfd::remap(start_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
  // A kernel before 5.13 can't do that. A size of 0 copies the mapping without its page tables.
  if (shared == MAP_FAILED && errno == EINVAL) shared = memfd::remap(start_, 0, bytes_, MREMAP_MAYMOVE);
  if (shared == MAP_FAILED) fail_mapping(bytes_);
  // From here on the region owns the mapping. The new mapping takes the place of the old one in one step.
  if (map(start_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_.get()) == MAP_FAILED) {
    const int error = errno;
    ::munmap(shared, bytes_);
    errno = error;
    fail_mapping(bytes_);
  }
  region->data_ = static_cast<const std::byte*>(shared);
  region->mapped_ = bytes_;
  region->fd_ = std::move(fd_);
  region_ = std::move(region);
}

bool PoolBlock::make_shared() noexcept {
  region_->attachments_.clear();  // these may use the memory where it is
  void* const shared = const_cast<std::byte*>(std::exchange(region_->data_, nullptr));
  fd_ = std::move(region_->fd_);
  region_->size_ = 0;  // nothing is left to free
  region_.reset();
  // madvise() and munmap() are functions that UCX replaces: by them it forgets what it registered with a network's
  // hardware at both addresses. A kernel before 5.13 can only copy the mapping.
  drop_private_pages();
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED;
  void* moved = memfd::remap(shared, bytes_, bytes_, kFlags | MREMAP_DONTUNMAP, start_);
  if (moved == MAP_FAILED && errno == EINVAL) moved = memfd::remap(shared, 0, bytes_, kFlags, start_);
  ::munmap(shared, bytes_);
  return moved == start_;
}

void PoolBlock::drop_private_pages() const noexcept { static_cast<void>(::madvise(start_, bytes_, MADV_DONTNEED)); }

void PoolBlock::become_inherited() noexcept {
  // A shared mapping isn't there in a child.
  if (!is_private()) start_ = nullptr;
  if (region_) {
    region_->fd_.reset();
    leak(std::move(region_));  // the child's copies of leases point to it
  }
  fd_.reset();
  inherited_ = true;
}

}  // namespace crossdock::device
