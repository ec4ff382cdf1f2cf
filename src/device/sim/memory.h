#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "clock.h"
#include "crossdock/core/fork.h"
#include "crossdock/core/unique_fd.h"
#include "crossdock/device/buffer.h"
#include "crossdock/device/device.h"

namespace crossdock::device::sim {

/// Seals of memory that is handed to others, who may write it: its size is fixed.
extern const int kShareSeals;

/// Fills host-visible bytes that nobody should look at: all of few, places in many.
void fill_with_pattern(std::byte* start, std::uint64_t size) noexcept;

/// Memory of a device as its queues' threads see it: a memfd's pages, mapped read-write and touched already. Lives as
/// long as a view or work on it.
class Block {
 public:
  /// Takes the descriptor's first `size` bytes, which are whole pages. Throws ResourceError, SystemError.
  Block(const UniqueFd& fd, std::uint64_t size);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();

  std::byte* alias() const noexcept { return alias_; }
  std::uint64_t size() const noexcept { return size_; }
  bool in_child() const noexcept { return made_in_.in_child(); }

  /// For who holds the simulation's lock: the accesses, by offset, and how many views there are.
  AccessLog log;
  std::uint32_t views = 0;
  /// Work of queues that have a share of the memory until it is done: whoever frees it comes after that.
  Clock kept;

 private:
  ForkGuard made_in_;
  std::byte* alias_;
  std::uint64_t size_;
};

/// Blocks on their way to the next who wants one of their size: touching fresh memory takes longer than the copy that
/// it is for. Thread-safe.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  /// Comes back when its last owner drops it. `size` is whole pages.
  std::shared_ptr<Block> take(std::uint64_t size);
  /// Keeps `most` bytes at most from now on.
  void limit(std::uint64_t most);

 private:
  void put(std::unique_ptr<Block> block) noexcept;
  std::mutex mutex_;
  std::multimap<std::uint64_t, std::unique_ptr<Block>> blocks_;
  std::uint64_t kept_ = 0;
  std::uint64_t most_ = 0;
};

/// Addresses that were freed: kept without access, so that using them is a crash and not somebody else's memory, until
/// there are too many of them. Thread-safe.
class Quarantine {
 public:
  ~Quarantine();
  /// Takes a mapping away, and its addresses.
  void add(std::byte* start, std::uint64_t size) noexcept;

 private:
  struct Range {
    std::byte* start;
    std::uint64_t size;
  };
  ForkGuard made_in_;
  std::mutex mutex_;
  std::deque<Range> ranges_;
  std::uint64_t bytes_ = 0;
};

/// An allocation: device addresses for a block, with a guard page on either side.
class View {
 public:
  /// `size` bytes from the block's start. Device memory can't be touched at its addresses; the other kinds can.
  View(std::shared_ptr<Block> block, std::uint64_t size, Device device, MemoryKind kind,
       std::shared_ptr<Quarantine> quarantine);
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View();

  std::byte* address() const noexcept { return address_; }
  std::uint64_t size() const noexcept { return size_; }
  const Device& device() const noexcept { return device_; }
  MemoryKind kind() const noexcept { return kind_; }
  bool host_visible() const noexcept { return kind_ != MemoryKind::kDevice; }
  const std::shared_ptr<Block>& block() const noexcept { return block_; }

  /// Removes the host's access to pages, or restores it, by the pending accesses of the block. For who holds the
  /// simulation's lock. Returns true if something is still taken away.
  bool protect();
  /// The part of [begin, end) on pages that protect() can't take away: an access must have all of a page.
  struct Edges {
    std::uint64_t begin, first_page, last_page, end;
  };
  Edges edges(std::uint64_t begin, std::uint64_t end) const noexcept;

  bool freed = false;         ///< Put on a queue to be freed. For who holds the simulation's lock, as the next.
  bool is_protected = false;  ///< In the simulation's list of such.
  UniqueFd descriptor;        ///< To be exported; empty if it isn't exportable.

 private:
  std::shared_ptr<Block> block_;
  std::uint64_t size_;
  Device device_;
  MemoryKind kind_;
  std::shared_ptr<Quarantine> quarantine_;
  ForkGuard made_in_;
  std::byte* address_ = nullptr;
  std::vector<std::uint8_t> rights_;  // of each page, as for mprotect(); empty before anything was taken away
};

}  // namespace crossdock::device::sim
