#include "crossdock/dissociated/lease_ledger.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::dissociated {
namespace {

/// Leases of one address that followed each other with the same holder and length.
struct Run {
  std::uint64_t holder = 0;
  std::uint64_t length = 0;
  std::int64_t since_ms = 0;  // of the first of them
  std::uint32_t count = 0;
};

constexpr std::uint32_t kNoMore = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kFirstCapacity = 256;

/// One address. It keeps its place with no lease left: the address will most likely be lent again, and a table without
/// deletions needs no tombstones; the next rehash drops what is idle.
struct Slot {
  std::uint64_t address = 0;     // 0: empty. Nobody leases address 0.
  Run oldest;                    // count 0: nothing lent
  std::uint32_t more = kNoMore;  // queue of the later runs, in `queues_`: rare
  // The rest serves FreeRule::kLetter only.
  std::uint32_t owed = 0;        // frees that a counting client may still send for leases that have ended already
  std::uint32_t ended = 0;       // leases of streams before `generation`; they are the oldest ones
  std::uint32_t generation = 0;  // the stream that `ended` was right for
  std::uint32_t leases = 0;      // of all runs
};

}  // namespace

struct LeaseLedger::Impl {
  explicit Impl(FreeRule free_rule) : rule(free_rule), table(kFirstCapacity) { set_shift(); }

  FreeRule rule;
  std::vector<Slot> table;  // open addressing, linear probing, at most half full; a power of two
  int shift = 0;
  std::size_t occupied = 0;
  std::vector<std::deque<Run>> queues;
  std::vector<std::uint32_t> idle_queues;
  std::uint32_t generation = 0;
  std::size_t pairs = 0;
  std::uint64_t bytes = 0;
  std::uint64_t unfinished = 0;  // kLetter: the address of which a free has ended some leases and not yet all; 0: none

  void set_shift() { shift = 64 - std::countr_zero(table.size()); }

  std::size_t start_of(std::uint64_t address) const noexcept {
    // Fibonacci hashing; the fold brings the region number of the top bits down, where the multiplication spreads it.
    return static_cast<std::size_t>(((address ^ (address >> 32)) * 0x9E3779B97F4A7C15ull) >> shift);
  }

  /// The slot of the address, or the empty one where it belongs.
  Slot& probe(std::uint64_t address) noexcept {
    const std::size_t mask = table.size() - 1;
    for (std::size_t i = start_of(address);; i = (i + 1) & mask) {
      if (table[i].address == address || table[i].address == 0) return table[i];
    }
  }

  /// Makes room for one more address: drops idle ones, and doubles the table if that isn't enough.
  void rehash() {
    const auto in_use = [](const Slot& slot) { return slot.oldest.count != 0 || slot.owed != 0; };
    std::vector<Slot> old;
    const auto live = static_cast<std::size_t>(std::count_if(table.begin(), table.end(), in_use));
    std::vector<Slot> bigger(std::max(kFirstCapacity, std::bit_ceil((live + 1) * 4)));
    old.swap(table);
    table.swap(bigger);
    set_shift();
    occupied = live;
    for (const Slot& slot : old) {
      if (in_use(slot)) probe(slot.address) = slot;
    }
  }

  Slot& slot_for_lending(std::uint64_t address) {
    Slot* slot = &probe(address);
    if (slot->address == 0) {
      if ((occupied + 1) * 2 > table.size()) {
        rehash();
        slot = &probe(address);
      }
      ++occupied;
      slot->address = address;
      slot->generation = generation;
    }
    return *slot;
  }

  std::uint32_t take_queue() {
    if (idle_queues.empty()) {
      queues.emplace_back();
      idle_queues.reserve(queues.size());  // giving one back never allocates
      return static_cast<std::uint32_t>(queues.size() - 1);
    }
    const std::uint32_t queue = idle_queues.back();
    idle_queues.pop_back();
    return queue;
  }

  static bool extends(const Run& run, std::uint64_t holder, std::uint64_t length) noexcept {
    return run.holder == holder && run.length == length && run.count != std::numeric_limits<std::uint32_t>::max();
  }

  void lend(const RemoteBuffer& buffer, std::uint64_t holder, std::int64_t now_ms) {
    Slot& slot = slot_for_lending(buffer.address);
    if (rule == FreeRule::kLetter) settle(slot);
    if (slot.oldest.count == 0) {
      slot.oldest = {holder, buffer.length, now_ms, 1};
    } else if (slot.more == kNoMore && extends(slot.oldest, holder, buffer.length)) {
      ++slot.oldest.count;
    } else {
      const std::uint32_t number = slot.more == kNoMore ? take_queue() : slot.more;
      std::deque<Run>& queue = queues[number];
      if (!queue.empty() && extends(queue.back(), holder, buffer.length)) {
        ++queue.back().count;
      } else {
        queue.push_back({holder, buffer.length, now_ms, 1});
      }
      slot.more = number;  // last: a slot never points at an empty queue, also where push_back throws
    }
    ++slot.leases;
    ++pairs;
    bytes += buffer.length;
  }

  /// Ends the oldest lease of a slot that has one.
  void end_one(Slot& slot, std::vector<std::uint64_t>* freed) {
    freed->push_back(slot.oldest.holder);
    --slot.leases;
    --pairs;
    bytes -= slot.oldest.length;
    if (--slot.oldest.count == 0 && slot.more != kNoMore) [[unlikely]] {
      std::deque<Run>& queue = queues[slot.more];
      slot.oldest = queue.front();
      queue.pop_front();
      if (queue.empty()) {
        idle_queues.push_back(slot.more);
        slot.more = kNoMore;
      }
    }
  }

  /// Brings `ended` up to date: streams may have ended since the slot was touched last.
  void settle(Slot& slot) const noexcept {
    if (slot.generation == generation) return;
    // The free under way ends these leases too.
    if (slot.address == unfinished) slot.owed += slot.leases - slot.ended;
    slot.ended = slot.leases;
    slot.generation = generation;
  }

  /// False: the slot has more leases to end than there are steps.
  bool free_by_letter(Slot& slot, std::size_t* steps, std::vector<std::uint64_t>* freed) {
    settle(slot);
    if (slot.ended != 0) {
      if (unfinished == 0) slot.owed += slot.ended - 1;
      unfinished = slot.address;
      for (; slot.ended != 0; --slot.ended) {
        if (*steps == 0) return false;
        --*steps;
        end_one(slot, freed);
      }
      unfinished = 0;
    } else if (slot.owed != 0) {
      --slot.owed;
    } else {
      end_one(slot, freed);
    }
    return true;
  }

  /// False: not all leases that the free ends have ended. The same address comes next, then.
  bool free(std::uint64_t address, std::size_t* steps, std::vector<std::uint64_t>* freed) {
    --*steps;
    if (address == 0) return true;
    Slot& slot = probe(address);
    if (slot.address == 0 || (slot.oldest.count == 0 && slot.owed == 0)) [[unlikely]] {
      throw ProtocolError("free_data names address " + std::to_string(address) +
                          ", which is not lent on this connection: it was never sent, or freed more often than sent");
    }
    if (rule == FreeRule::kLetter) return free_by_letter(slot, steps, freed);
    end_one(slot, freed);
    return true;
  }
};

LeaseLedger::LeaseLedger(FreeRule rule) : impl_(std::make_unique<Impl>(rule)) {}
LeaseLedger::~LeaseLedger() = default;
LeaseLedger::LeaseLedger(LeaseLedger&&) noexcept = default;
LeaseLedger& LeaseLedger::operator=(LeaseLedger&&) noexcept = default;

void LeaseLedger::lend(std::span<const RemoteBuffer> buffers, std::uint64_t holder, std::int64_t now_ms) {
  for (const RemoteBuffer& buffer : buffers) {
    if (buffer.address != 0) impl_->lend(buffer, holder, now_ms);
  }
}

std::size_t LeaseLedger::free(std::span<const std::uint64_t> addresses, std::vector<std::uint64_t>* freed,
                              std::size_t steps) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (steps == 0 || !impl_->free(addresses[i], &steps, freed)) return i;
  }
  return addresses.size();
}

void LeaseLedger::stream_ended() noexcept { ++impl_->generation; }

void LeaseLedger::free_all(std::vector<std::uint64_t>* freed) {
  freed->reserve(freed->size() + impl_->pairs);
  for (Slot& slot : impl_->table) {
    while (slot.oldest.count != 0) impl_->end_one(slot, freed);
  }
  *impl_ = Impl(impl_->rule);
}

std::size_t LeaseLedger::outstanding() const noexcept { return impl_->pairs; }
std::uint64_t LeaseLedger::outstanding_bytes() const noexcept { return impl_->bytes; }

std::optional<std::int64_t> LeaseLedger::oldest_ms() const noexcept {
  std::optional<std::int64_t> oldest;
  for (const Slot& slot : impl_->table) {
    if (slot.oldest.count != 0 && (!oldest || slot.oldest.since_ms < *oldest)) oldest = slot.oldest.since_ms;
  }
  return oldest;
}

}  // namespace crossdock::dissociated
