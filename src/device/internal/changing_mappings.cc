#include "device/internal/changing_mappings.h"

#include <pthread.h>

#include <atomic>
#include <map>
#include <mutex>

#include "device/changing_memory.h"

namespace crossdock::device {
namespace {

struct Mapping {
  std::uint64_t size;
  RegionKind kind;
};

struct Mappings {
  std::mutex mutex;
  std::map<std::uintptr_t, Mapping> by_start;
  std::atomic<std::size_t> count{0};

  void counted() noexcept { count.store(by_start.size(), std::memory_order_relaxed); }
};

/// Never destroyed: regions that static objects own are destroyed after everything else.
Mappings& mappings();

/// The handlers of fork. They hold the lock over the fork, so that no thread that doesn't exist in the child holds it
/// there, and remove the mappings that don't exist in the child.
void before_fork() { mappings().mutex.lock(); }
void after_fork_in_parent() { mappings().mutex.unlock(); }
void after_fork_in_child() {
  Mappings& all = mappings();
  std::erase_if(all.by_start, [](const auto& entry) { return entry.second.kind == RegionKind::kRecycled; });
  all.counted();
  all.mutex.unlock();
}

Mappings& mappings() {
  static Mappings* const all = [] {
    auto* const made = new Mappings;
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return made;
  }();
  return *all;
}

std::uintptr_t address_of(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Returns the rest of a mapping, from `pointer` on.
std::optional<Mapping> find(const void* pointer) noexcept {
  Mappings& all = mappings();
  // A caller has a pointer into a mapping from the region, which was listed before that.
  if (all.count.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard lock(all.mutex);
  auto after = all.by_start.upper_bound(address_of(pointer));
  if (after == all.by_start.begin()) return std::nullopt;
  const auto& [start, mapping] = *--after;
  const std::uint64_t distance = address_of(pointer) - start;
  if (distance >= mapping.size) return std::nullopt;
  return Mapping{mapping.size - distance, mapping.kind};
}

}  // namespace

namespace changing {

void add(const void* start, std::uint64_t size, RegionKind kind) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.by_start.emplace(address_of(start), Mapping{size, kind});
  all.counted();
}

void remove(const void* start) noexcept {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.by_start.erase(address_of(start));
  all.counted();
}

}  // namespace changing

std::optional<std::uint64_t> bytes_left_in_changing_memory(const void* pointer) noexcept {
  const std::optional<Mapping> rest = find(pointer);
  return rest ? std::optional(rest->size) : std::nullopt;
}

bool in_mapped_file(const void* pointer) noexcept {
  const std::optional<Mapping> rest = find(pointer);
  return rest && rest->kind == RegionKind::kFile;
}

}  // namespace crossdock::device
