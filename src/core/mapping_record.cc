#include "core/mapping_record.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>

namespace crossdock {
namespace {

constexpr std::size_t kWords = RecordedMapping::kLongestLabel / sizeof(std::uint64_t);
constexpr std::uint32_t kSlotsPerChunk = 256;
constexpr std::uint32_t kChunks = 1024;  // 262,144 mappings; the system's limit is 65,530 unless it was raised

/// One mapping. All members are atomic, because a signal handler may read while another thread writes. `version` is odd
/// while the slot is valid, and differs after each change.
struct Slot {
  std::atomic<std::uint32_t> version{0};
  std::atomic<std::uint32_t> next_free{0};
  std::atomic<std::uintptr_t> start{0};
  std::atomic<std::size_t> size{0};
  std::atomic<MappingKind> kind{MappingKind::kMemory};
  std::atomic<std::size_t> label_size{0};
  std::array<std::atomic<std::uint64_t>, kWords> label{};
};

using Chunk = std::array<Slot, kSlotsPerChunk>;

// Chunks live as long as the process: a signal handler may read them at any time.
std::atomic<Chunk*> chunks[kChunks];
std::atomic<std::uint32_t> slots_made{0};
// A stack of free slots. The low half is the number of the first free slot, 0 for none. The high half is a count that
// every change increases, so that a slot that was taken and freed again meanwhile isn't mistaken for one that stayed
// free.
std::atomic<std::uint64_t> free_slots{0};

/// Returns a slot; null if its chunk doesn't exist.
Slot* find_slot(std::uint32_t number) noexcept {
  Chunk* const chunk = chunks[(number - 1) / kSlotsPerChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &(*chunk)[(number - 1) % kSlotsPerChunk];
}

Slot& made_slot(std::uint32_t number) noexcept { return *find_slot(number); }

std::uint64_t with_next_count(std::uint64_t head, std::uint32_t number) noexcept {
  return ((head >> 32) + 1) << 32 | number;
}

/// Returns the number of a free slot; 0 if there is none.
std::uint32_t pop_free() noexcept {
  std::uint64_t head = free_slots.load(std::memory_order_acquire);
  while (static_cast<std::uint32_t>(head) != 0) {
    const auto number = static_cast<std::uint32_t>(head);
    const std::uint32_t next = made_slot(number).next_free.load(std::memory_order_relaxed);
    if (free_slots.compare_exchange_weak(head, with_next_count(head, next), std::memory_order_acq_rel)) return number;
  }
  return 0;
}

void push_free(std::uint32_t number) noexcept {
  std::uint64_t head = free_slots.load(std::memory_order_relaxed);
  do {
    made_slot(number).next_free.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
  } while (!free_slots.compare_exchange_weak(head, with_next_count(head, number), std::memory_order_acq_rel));
}

/// Returns the number of a new slot; 0 if there is no memory, or all slots are taken.
std::uint32_t make_slot() noexcept {
  std::uint32_t made = slots_made.load(std::memory_order_relaxed);
  do {
    if (made == kSlotsPerChunk * kChunks) return 0;
    std::atomic<Chunk*>& place = chunks[made / kSlotsPerChunk];
    if (place.load(std::memory_order_acquire) == nullptr) {
      auto* const fresh = new (std::nothrow) Chunk;
      if (fresh == nullptr) return 0;
      Chunk* none = nullptr;
      if (!place.compare_exchange_strong(none, fresh, std::memory_order_acq_rel)) delete fresh;
    }
  } while (!slots_made.compare_exchange_weak(made, made + 1, std::memory_order_acq_rel));
  return made + 1;
}

bool read(Slot& slot, std::uintptr_t address, RecordedMapping* found) noexcept {
  const std::uint32_t version = slot.version.load(std::memory_order_acquire);
  if (version % 2 == 0) return false;
  found->start = slot.start.load(std::memory_order_relaxed);
  found->size = slot.size.load(std::memory_order_relaxed);
  if (address < found->start || address - found->start >= found->size) return false;
  found->kind = slot.kind.load(std::memory_order_relaxed);
  found->label_size = std::min(slot.label_size.load(std::memory_order_relaxed), RecordedMapping::kLongestLabel);
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint64_t word = slot.label[i].load(std::memory_order_relaxed);
    std::memcpy(found->label + i * sizeof(word), &word, sizeof(word));
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return slot.version.load(std::memory_order_relaxed) == version;
}

}  // namespace

MappingRecord::MappingRecord(const void* start, std::size_t size, MappingKind kind, std::string_view label) noexcept {
  slot_ = pop_free();
  if (slot_ == 0) slot_ = make_slot();
  if (slot_ == 0) return;
  Slot& slot = made_slot(slot_);
  const std::size_t kept = std::min(label.size(), RecordedMapping::kLongestLabel);
  slot.start.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_relaxed);
  slot.size.store(size, std::memory_order_relaxed);
  slot.kind.store(kind, std::memory_order_relaxed);
  slot.label_size.store(kept, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::size_t at = i * sizeof(std::uint64_t);
    std::uint64_t word = 0;
    if (at < kept) std::memcpy(&word, label.data() + at, std::min(sizeof(word), kept - at));
    slot.label[i].store(word, std::memory_order_relaxed);
  }
  slot.version.fetch_add(1, std::memory_order_release);
}

void MappingRecord::release() noexcept {
  if (slot_ == 0) return;
  made_slot(slot_).version.fetch_add(1, std::memory_order_acq_rel);
  push_free(slot_);
  slot_ = 0;
}

bool find_mapping(std::uintptr_t address, RecordedMapping* found) noexcept {
  const std::uint32_t made = slots_made.load(std::memory_order_acquire);
  for (std::uint32_t number = 1; number <= made; ++number) {
    Slot* const slot = find_slot(number);
    if (slot != nullptr && read(*slot, address, found)) return true;
  }
  return false;
}

}  // namespace crossdock
