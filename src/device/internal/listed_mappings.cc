#include "device/internal/listed_mappings.h"

#include <pthread.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "device/changing_memory.h"
#include "device/private_memory.h"

namespace crossdock::device {
namespace {

struct Mapping {
  std::uint64_t size;
  RegionKind kind;
  std::weak_ptr<const Region>
      source;  // of a private mapping: the region behind it; of others: itself, if it can be passed on
  bool is_private = false;
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

/// The part of a mapping from a pointer on.
struct Found {
  std::uint64_t size;
  std::uint64_t offset;  // of the pointer
  RegionKind kind;
  bool is_private;
  std::shared_ptr<const Region> source;  // null unless it was asked for
};
std::optional<Found> find(const void* pointer, bool with_source = false) noexcept {
  Mappings& all = mappings();
  // A caller has a pointer into a mapping from the region, which was listed before that.
  if (all.count.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard lock(all.mutex);
  auto after = all.by_start.upper_bound(address_of(pointer));
  if (after == all.by_start.begin()) return std::nullopt;
  const auto& [start, mapping] = *--after;
  const std::uint64_t distance = address_of(pointer) - start;
  if (distance >= mapping.size) return std::nullopt;
  return Found{mapping.size - distance, distance, mapping.kind, mapping.is_private,
               with_source ? mapping.source.lock() : nullptr};
}

}  // namespace

namespace listed {

void add(const void* start, std::uint64_t size, RegionKind kind, const std::weak_ptr<const Region>& source) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.by_start.emplace(address_of(start), Mapping{size, kind, source, !source.expired()});
  all.counted();
}

void set_source(const void* start, const std::weak_ptr<const Region>& source) noexcept {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  const auto mapping = all.by_start.find(address_of(start));
  if (mapping != all.by_start.end()) mapping->second.source = source;
}

void add_own(const void* start, std::uint64_t size) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.by_start.emplace(address_of(start), Mapping{size, RegionKind::kFrozen, {}, true});
  all.counted();
}

void remove(const void* start) noexcept {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.by_start.erase(address_of(start));
  all.counted();
}

}  // namespace listed

std::optional<std::uint64_t> bytes_left_in_changing_memory(const void* pointer) noexcept {
  const std::optional<Found> rest = find(pointer);
  return rest && rest->kind != RegionKind::kFrozen ? std::optional(rest->size) : std::nullopt;
}

bool in_mapped_file(const void* pointer) noexcept {
  const std::optional<Found> rest = find(pointer);
  return rest && rest->kind == RegionKind::kFile;
}

bool in_private_memory(const void* pointer, std::uint64_t size) noexcept {
  const std::optional<Found> rest = find(pointer);
  return rest && rest->is_private && size <= rest->size;
}

std::optional<ReceivedMemory> received_memory(const void* pointer, std::uint64_t size) {
  std::optional<Found> rest = find(pointer, true);
  // A file may change, so its server checks it at each hand-over; a process that passed it on wouldn't be asked.
  if (!rest || !rest->source || rest->kind == RegionKind::kFile || size > rest->size) return std::nullopt;
  if (pages_written(pointer, size)) return std::nullopt;
  return ReceivedMemory{std::move(rest->source), rest->offset};
}

}  // namespace crossdock::device
