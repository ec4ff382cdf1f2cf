#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/fork.h"
#include "core/memory_limit.h"
#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "device/memfd.h"
#include "device/region.h"

namespace crossdock::device {

namespace {

constexpr std::uint64_t kFirstStep = std::uint64_t{1} << 20;
constexpr const char* kArenaName = "crossdock-arena";

std::uint64_t default_reserve() noexcept {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return std::uint64_t{64} << 30;
  return 2 * std::uint64_t{info.totalram} * info.mem_unit;
}

}  // namespace

/// One shared mapping of the reserved size, of a file that grows behind it: address space costs nothing, and allocated
/// memory never moves.
struct Arena::Impl {
  enum class State { kOpen, kReadOnly, kFrozen };

  ForkGuard made_in;
  UniqueFd fd;
  std::byte* base = nullptr;   // null once the region owns the mapping
  std::byte* start = nullptr;  // the mapping's address; never changes
  std::uint64_t reserve = 0;
  Frozen when_frozen = Frozen::kReadOnly;

  mutable std::mutex mutex;
  std::uint64_t file_size = 0;
  int freezing = 0;  // freeze() calls that run their hooks: nothing may be allocated that the hooks don't see
  std::vector<std::function<void()>> hooks;
  std::atomic<std::uint64_t> end{kBufferAlignment};
  std::atomic<State> state{State::kOpen};
  std::shared_ptr<const Region> region;  // written once, before state says kFrozen

  ~Impl() {
    // In a forked child the mapping of an arena that wasn't frozen doesn't exist: another may have its addresses.
    if (base != nullptr && (region || !made_in.in_child())) ::munmap(base, reserve);
  }

  void map_reserve(bool may_be_less) {
    constexpr std::uint64_t kLeast = std::uint64_t{64} << 20;
    for (;;) {
      void* mapping = ::mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
      if (mapping != MAP_FAILED) {
        base = start = static_cast<std::byte*>(mapping);
        break;
      }
      if (may_be_less && errno == ENOMEM && reserve / 2 >= kLeast) {
        reserve = align_up(reserve / 2, memfd::page_size());
        continue;
      }
      throw ResourceError("reserving " + std::to_string(reserve) +
                          " bytes of address space for an Arena: " + std::generic_category().message(errno) +
                          "; give a smaller `reserve`, or raise the limit (ulimit -v)");
    }
    // Otherwise a child could write into the parent's table, and its mapping would prevent the seals.
    if (::madvise(base, reserve, MADV_DONTFORK) != 0) throw_errno(errno, "keeping an Arena from forked children");
  }

  void grow_file(std::uint64_t needed) {
    if (needed <= file_size) return;
    const std::uint64_t wanted = std::min(reserve, std::max({needed, 2 * file_size, kFirstStep}));
    const std::uint64_t size = align_up(wanted, memfd::page_size());
    memfd::resize(fd, size, kArenaName);
    file_size = size;
  }

  /// Makes the memory read-only. Call it with the lock held. A failure before the mapping is replaced leaves the arena
  /// unchanged. After a later failure the arena can only be frozen.
  void make_read_only() {
    const std::uint64_t size = align_up(end.load(std::memory_order_relaxed), memfd::page_size());
    memfd::resize(fd, size, kArenaName);
    file_size = size;
    if (!memfd::fully_backed(fd, size, kArenaName)) memfd::fill_holes(fd, 0, size, kArenaName);
    auto frozen = std::shared_ptr<Region>(new Region);
    frozen->fd_ = memfd::reopen_read_only(fd, kArenaName);
    frozen->kind_ = RegionKind::kFrozen;
    frozen->size_ = size;
    frozen->name_ = kArenaName;
    if (when_frozen == Frozen::kCopyOnWrite) {
      frozen->map(frozen->fd_.get(), size, PROT_READ, "an Arena that is written to");
    }
    // One call replaces the whole mapping at once: the memory is mapped for readers at all times, and no shared
    // writable piece is left that would prevent the seals.
    const bool writable = when_frozen == Frozen::kCopyOnWrite;
    if (::mmap(base, reserve, writable ? PROT_READ | PROT_WRITE : PROT_READ,
               (writable ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED | MAP_NORESERVE, frozen->fd_.get(), 0) == MAP_FAILED) {
      throw ResourceError("mapping an Arena anew: " + std::generic_category().message(errno));
    }
    const std::uint64_t left = ::munmap(base + size, reserve - size) == 0 ? size : reserve;
    if (writable) {
      reserve = left;  // stays with the arena
    } else {
      frozen->data_ = base;
      frozen->mapped_ = left;
      frozen->record_ = {base, left, MappingKind::kMemory, "an Arena of this process, which was published"};
      base = nullptr;
    }
    region = std::move(frozen);
    state.store(State::kReadOnly, std::memory_order_release);
  }
};

Arena::Arena(std::uint64_t reserve, Frozen frozen) : impl_(std::make_unique<Impl>()) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 47;
  if (reserve > kMost) {
    throw InvalidArgumentError("an Arena can't reserve " + std::to_string(reserve) +
                               " bytes: more than a process's address space");
  }
  const std::uint64_t wanted = reserve == 0 ? default_reserve() : reserve;
  impl_->reserve = align_up(std::max(wanted, kBufferAlignment) + kBufferAlignment, memfd::page_size());
  impl_->when_frozen = frozen;
  impl_->fd = memfd::create(kArenaName);
  impl_->map_reserve(reserve == 0);
}

Arena::~Arena() = default;

std::byte* Arena::allocate(std::uint64_t size) {
  impl_->made_in.check("this Arena");
  const std::lock_guard lock(impl_->mutex);
  if (impl_->freezing != 0 || impl_->state.load(std::memory_order_relaxed) != Impl::State::kOpen) {
    throw ArenaFrozenError("this Arena was published and is now read-only; make a new one for the next table");
  }
  // Takes at least one byte, so that an empty column's pointer is inside the region, too.
  const std::uint64_t taken = std::max<std::uint64_t>(size, 1);
  const std::uint64_t offset = impl_->end.load(std::memory_order_relaxed);
  if (taken > impl_->reserve - offset) {
    throw ResourceError("this Arena has room for " + std::to_string(impl_->reserve - offset) + " more bytes, but " +
                        std::to_string(size) + " were requested; make it with a larger `reserve`");
  }
  check_memory_room(taken, "an allocation in an Arena");
  const std::uint64_t end = align_up(offset + taken, kBufferAlignment);
  impl_->grow_file(end);
  impl_->end.store(end, std::memory_order_release);
  return impl_->base + offset;
}

bool Arena::contains(const void* pointer, std::uint64_t size) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto start = reinterpret_cast<std::uintptr_t>(impl_->start);
  const std::uint64_t end = impl_->end.load(std::memory_order_acquire);
  return at >= start && at - start <= end && size <= end - (at - start);
}

std::uint64_t Arena::size() const noexcept { return impl_->end.load(std::memory_order_acquire); }

bool Arena::frozen() const noexcept { return impl_->state.load(std::memory_order_acquire) == Impl::State::kFrozen; }

Arena::Frozen Arena::when_frozen() const noexcept { return impl_->when_frozen; }

std::uint64_t Arena::offset_of(const void* pointer) const noexcept {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(pointer) - impl_->start);
}

std::shared_ptr<const Region> Arena::freeze() {
  // A frozen arena can be used in a forked child as in its parent.
  if (frozen()) return impl_->region;
  impl_->made_in.check("this Arena");

  std::vector<std::function<void()>> hooks;
  {
    const std::lock_guard lock(impl_->mutex);
    hooks = impl_->hooks;
    ++impl_->freezing;
  }
  struct Leave {
    Impl* impl;
    ~Leave() {
      const std::lock_guard lock(impl->mutex);
      --impl->freezing;
    }
  } leave{impl_.get()};
  for (const auto& hook : hooks) hook();

  std::vector<std::function<void()>> done;  // dropped after the lock: a hook's owner may need locks of its own
  const std::lock_guard lock(impl_->mutex);
  if (impl_->state.load(std::memory_order_relaxed) == Impl::State::kOpen) impl_->make_read_only();
  if (impl_->state.load(std::memory_order_relaxed) == Impl::State::kReadOnly) {
    memfd::seal(impl_->fd, memfd::kFrozenSeals, kArenaName);
    impl_->fd.reset();
    done.swap(impl_->hooks);
    impl_->state.store(Impl::State::kFrozen, std::memory_order_release);
  }
  return impl_->region;
}

void Arena::on_freeze(std::function<void()> hook) {
  impl_->made_in.check("this Arena");
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->freezing == 0 && impl_->state.load(std::memory_order_relaxed) == Impl::State::kOpen) {
      impl_->hooks.push_back(std::move(hook));
      return;
    }
  }
  hook();
}

}  // namespace crossdock::device
