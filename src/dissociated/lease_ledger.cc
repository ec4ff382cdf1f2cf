#include "dissociated/lease_ledger.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "dissociated/lent_bodies.h"

namespace crossdock::dissociated {
namespace {

/// Consecutive leases of one address with the same holder and length.
struct Run {
  std::uint64_t holder = 0;
  std::uint64_t length = 0;
  std::int64_t since_ms = 0;  // of the first of these leases
  std::uint32_t count = 0;
};

/// One of the later runs of an address. They form a ring: the last one points to the oldest.
struct Later {
  Run run;
  std::uint32_t next = 0;
};

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kFirstCapacity = 256;
constexpr std::size_t kFirstCapacityOfMany = 64;
// A table with more slots is split, so that growing never copies more than a small part at once: other connections wait
// while lend() runs.
constexpr std::size_t kSplitAt = 4096;
constexpr int kPartBits = 8;

/// One address. The slot stays occupied when no lease is left: the address will most likely be lent again, and a table
/// without deletions needs no tombstones. The next rehash drops idle slots.
struct Slot {
  std::uint64_t address = 0;   // 0: empty. Address 0 is never leased.
  Run oldest;                  // count 0: nothing lent
  std::uint32_t more = kNone;  // the last of the later runs, in `laters`: rarely used
  // The members below are only used with FreeRule::kAsSpecified.
  std::uint32_t owed = 0;        // frees that a counting client may still send for leases that have already ended
  std::uint32_t ended = 0;       // leases of streams before `generation`; they are the oldest ones
  std::uint32_t generation = 0;  // the stream for which `ended` was last updated
  std::uint32_t leases = 0;      // of all runs

  bool in_use() const noexcept { return oldest.count != 0 || owed != 0; }
};

/// Fibonacci hashing. The fold moves the region number from the top bits to lower ones, from which the multiplication
/// spreads it.
std::uint64_t hash_of(std::uint64_t address) noexcept { return (address ^ (address >> 32)) * 0x9E3779B97F4A7C15ull; }

/// Open addressing with linear probing. At most half full; the capacity is a power of two.
class Table {
 public:
  explicit Table(std::size_t capacity)
      : slots_(capacity), mask_(capacity - 1), shift_(64 - std::countr_zero(capacity)) {}

  /// Returns the slot of the address, or the empty slot where it belongs. The top bits of `hash` say where to begin.
  Slot& probe(std::uint64_t address, std::uint64_t hash) noexcept {
    for (auto i = static_cast<std::size_t>(hash >> shift_);; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      if (slot.address == address || slot.address == 0) return slot;
    }
  }

  bool full() const noexcept { return (occupied_ + 1) * 2 > slots_.size(); }
  std::size_t capacity() const noexcept { return slots_.size(); }
  void occupy() noexcept { ++occupied_; }
  const std::vector<Slot>& slots() const noexcept { return slots_; }

  /// Returns a copy with room for at least one more address, and without idle slots. `hash` computes the hash of an
  /// address as this table uses it.
  template <typename Hash>
  Table grown(Hash hash) const {
    const auto live = static_cast<std::size_t>(
        std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.in_use(); }));
    Table bigger(std::max(kFirstCapacityOfMany, std::bit_ceil((live + 1) * 4)));
    for (const Slot& slot : slots_) {
      if (slot.in_use()) bigger.probe(slot.address, hash(slot.address)) = slot;
    }
    bigger.occupied_ = live;
    return bigger;
  }

 private:
  std::vector<Slot> slots_;
  std::size_t mask_;
  int shift_;
  std::size_t occupied_ = 0;
};

}  // namespace

struct LeaseLedger::Impl {
  explicit Impl(FreeRule free_rule) : rule(free_rule) { tables.emplace_back(kFirstCapacity); }

  FreeRule rule;
  // With FreeRule::kCounted, leases are here as long as bodies are freed whole and in order. The first free that isn't
  // so moves all of them into the tables; until these are empty, new leases go there too. So never are both in use.
  LentBodies bodies;
  std::vector<Table> tables;  // one; or 2^kPartBits, selected by the top bits of the hash
  bool is_split = false;
  std::deque<Later> laters;    // grows without moving its elements
  std::uint32_t idle = kNone;  // the first unused element of `laters`: a list through `next`
  std::uint32_t generation = 0;
  std::size_t pairs = 0;  // of the tables
  std::uint64_t bytes = 0;
  std::uint64_t unfinished = 0;  // kAsSpecified: the address whose free has ended some leases, but not all; 0: none

  Table& table_of(std::uint64_t hash) noexcept {
    return is_split ? tables[static_cast<std::size_t>(hash >> (64 - kPartBits))] : tables.front();
  }
  /// Returns the hash as the table uses it, without the bits that selected the table.
  std::uint64_t inner(std::uint64_t hash) const noexcept { return is_split ? hash << kPartBits : hash; }

  Slot& probe(std::uint64_t address) noexcept {
    const std::uint64_t hash = hash_of(address);
    return table_of(hash).probe(address, inner(hash));
  }

  /// Makes room for one more address: drops idle slots, and enlarges the table if that isn't enough.
  void make_room(std::uint64_t hash) {
    Table& table = table_of(hash);
    table = table.grown([this](std::uint64_t address) { return inner(hash_of(address)); });
    if (!is_split && table.capacity() > kSplitAt) split();
  }

  void split() {
    std::vector<Table> parts(std::size_t{1} << kPartBits, Table(kFirstCapacityOfMany));
    parts.swap(tables);
    is_split = true;
    try {
      for (const Slot& slot : parts.front().slots()) {
        if (slot.address != 0) occupy(slot.address) = slot;
      }
    } catch (...) {
      parts.swap(tables);
      is_split = false;
      throw;
    }
  }

  /// Returns an empty slot for an address that isn't in the table.
  Slot& occupy(std::uint64_t address) {
    const std::uint64_t hash = hash_of(address);
    while (table_of(hash).full()) make_room(hash);
    Table& table = table_of(hash);
    table.occupy();
    return table.probe(address, inner(hash));
  }

  Slot& slot_for_lending(std::uint64_t address) {
    Slot& slot = probe(address);
    if (slot.address != 0) return slot;
    Slot& taken = occupy(address);
    taken.address = address;
    taken.generation = generation;
    return taken;
  }

  void add_later(Slot& slot, const Run& run) {
    std::uint32_t number = idle;
    if (number == kNone) {
      number = static_cast<std::uint32_t>(laters.size());
      laters.emplace_back();
    } else {
      idle = laters[number].next;
    }
    Later& last = slot.more == kNone ? laters[number] : laters[slot.more];
    laters[number] = {run, slot.more == kNone ? number : last.next};
    last.next = number;
    slot.more = number;
  }

  Run take_later(Slot& slot) noexcept {
    Later& last = laters[slot.more];
    const std::uint32_t number = last.next;
    Later& first = laters[number];
    if (number == slot.more) {
      slot.more = kNone;
    } else {
      last.next = first.next;
    }
    first.next = std::exchange(idle, number);
    return first.run;
  }

  static bool extends(const Run& run, std::uint64_t holder, std::uint64_t length) noexcept {
    return run.holder == holder && run.length == length && run.count != std::numeric_limits<std::uint32_t>::max();
  }

  std::size_t lend(std::span<const RemoteBuffer> buffers, std::uint64_t holder, std::int64_t now_ms) {
    if (rule == FreeRule::kCounted && pairs == 0) {
      if (const auto lent = bodies.push(buffers, holder, now_ms)) return *lent;
      count_singly();
    }
    const std::size_t before = pairs;
    for (const RemoteBuffer& buffer : buffers) {
      if (buffer.address != 0) lend_one(buffer, holder, now_ms);
    }
    return pairs - before;
  }

  /// Moves the leases of whole bodies into the tables.
  void count_singly() {
    bodies.drain([this](std::span<const RemoteBuffer> buffers, const LentBodies::Body& body) {
      for (const RemoteBuffer& buffer : buffers) lend_one(buffer, body.holder, body.since_ms);
    });
  }

  /// Ends the leases of the oldest bodies as long as `addresses` name these, whole and in order. Returns how many
  /// addresses that were. May take as many steps too many as a body has buffers.
  std::size_t free_bodies(std::span<const std::uint64_t> addresses, std::size_t* steps, std::vector<Freed>* freed) {
    std::size_t done = 0;
    while (*steps != 0) {
      const std::optional<LentBodies::Body> body = bodies.take(addresses.subspan(done));
      if (!body) break;
      add(body->holder, body->buffers, freed);
      done += body->buffers;
      *steps -= std::min<std::size_t>(*steps, body->buffers);
    }
    return done;
  }

  void lend_one(const RemoteBuffer& buffer, std::uint64_t holder, std::int64_t now_ms) {
    Slot& slot = slot_for_lending(buffer.address);
    if (rule == FreeRule::kAsSpecified) apply_ended_streams(slot);
    if (slot.oldest.count == 0) {
      slot.oldest = {holder, buffer.length, now_ms, 1};
    } else if (Run& last = slot.more == kNone ? slot.oldest : laters[slot.more].run;
               extends(last, holder, buffer.length)) {
      ++last.count;
    } else {
      add_later(slot, {holder, buffer.length, now_ms, 1});
    }
    ++slot.leases;
    ++pairs;
    bytes += buffer.length;
  }

  static void add(std::uint64_t holder, std::uint32_t leases, std::vector<Freed>* freed) {
    if (!freed->empty() && freed->back().holder == holder) {
      freed->back().leases += leases;
    } else {
      freed->push_back({holder, leases});
    }
  }

  /// Ends the oldest lease of a slot that has at least one.
  [[gnu::always_inline]] void end_one(Slot& slot, std::vector<Freed>* freed) {
    add(slot.oldest.holder, 1, freed);
    --slot.leases;
    --pairs;
    bytes -= slot.oldest.length;
    if (--slot.oldest.count == 0 && slot.more != kNone) [[unlikely]]
      slot.oldest = take_later(slot);
  }

  /// Updates `ended`: streams may have ended since the slot was last used.
  void apply_ended_streams(Slot& slot) const noexcept {
    if (slot.generation == generation) return;
    // The free in progress also ends these leases.
    if (slot.address == unfinished) slot.owed += slot.leases - slot.ended;
    slot.ended = slot.leases;
    slot.generation = generation;
  }

  /// Returns false if the slot has more leases to end than there are steps left.
  bool free_as_specified(Slot& slot, std::size_t* steps, std::vector<Freed>* freed) {
    apply_ended_streams(slot);
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

  [[noreturn]] static void fail_not_lent(std::uint64_t address) {
    throw ProtocolError(
        "free_data names address " + std::to_string(address) +
        ", which is not leased on this connection: it was never sent, or was freed more often than it was sent");
  }

  /// Returns false if not all leases that this free ends have ended yet. Then the next call must be for the same
  /// address.
  bool free(std::uint64_t address, std::size_t* steps, std::vector<Freed>* freed) {
    --*steps;
    if (address == 0) return true;
    Slot& slot = probe(address);
    if (slot.address == 0 || (slot.oldest.count == 0 && slot.owed == 0)) [[unlikely]]
      fail_not_lent(address);
    if (rule == FreeRule::kAsSpecified) return free_as_specified(slot, steps, freed);
    end_one(slot, freed);
    return true;
  }
};

LeaseLedger::LeaseLedger(FreeRule rule) : impl_(std::make_unique<Impl>(rule)) {}
LeaseLedger::~LeaseLedger() = default;

std::size_t LeaseLedger::lend(std::span<const RemoteBuffer> buffers, std::uint64_t holder, std::int64_t now_ms) {
  return impl_->lend(buffers, holder, now_ms);
}

std::size_t LeaseLedger::free(std::span<const std::uint64_t> addresses, std::vector<Freed>* freed, std::size_t steps) {
  Impl& in = *impl_;
  std::size_t done = in.free_bodies(addresses, &steps, freed);
  if (done == addresses.size() || steps == 0) return done;
  in.count_singly();
  for (; done < addresses.size(); ++done) {
    if (steps == 0 || !in.free(addresses[done], &steps, freed)) break;
  }
  return done;
}

void LeaseLedger::stream_ended() noexcept { ++impl_->generation; }

std::size_t LeaseLedger::outstanding() const noexcept { return impl_->pairs + impl_->bodies.outstanding(); }
std::uint64_t LeaseLedger::outstanding_bytes() const noexcept {
  return impl_->bytes + impl_->bodies.outstanding_bytes();
}

std::uint64_t LeaseLedger::memory() const noexcept {
  std::uint64_t bytes = impl_->laters.size() * sizeof(Later) + impl_->bodies.memory();
  for (const Table& table : impl_->tables) bytes += table.capacity() * sizeof(Slot);
  return bytes;
}

std::optional<std::int64_t> LeaseLedger::oldest_ms() const noexcept {
  std::optional<std::int64_t> oldest = impl_->bodies.oldest_ms();
  for (const Table& table : impl_->tables) {
    for (const Slot& slot : table.slots()) {
      if (slot.oldest.count != 0 && (!oldest || slot.oldest.since_ms < *oldest)) oldest = slot.oldest.since_ms;
    }
  }
  return oldest;
}

}  // namespace crossdock::dissociated
