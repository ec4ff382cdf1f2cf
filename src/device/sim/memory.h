#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "clock.h"
#include "core/fork.h"
#include "core/unique_fd.h"
#include "crossdock/device/device.h"

namespace crossdock::device::sim {

/// The name of memory files.
inline constexpr const char* kMemoryName = "crossdock-sim";

/// The seals of memory that is handed to other processes: they may write it, but its size is fixed.
extern const int kShareSeals;

/// Fills host-visible bytes that must not be read yet: a short range completely, a long one in places.
void fill_with_pattern(std::byte* start, std::uint64_t size) noexcept;

/// Memory of a device as its queues' threads see it: a memfd's pages, mapped read-write and already populated. Lives as
/// long as a view of it or work on it.
class Block {
 public:
  enum class Pages : std::uint8_t { kPopulated, kAsTheyAre };
  /// Maps the first `size` bytes of the descriptor, which are whole pages. Throws ResourceError, SystemError.
  Block(const UniqueFd& fd, std::uint64_t size, Pages pages);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();

  std::byte* alias() const noexcept { return alias_; }
  std::uint64_t size() const noexcept { return size_; }
  bool in_child() const noexcept { return made_in_.in_child(); }

  /// The accesses, by offset, and the number of views. Hold the simulation's lock to use them, and `kept`.
  AccessLog log;
  std::uint32_t views = 0;
  /// The work of queues that hold a share of the memory until that work is done. Freeing the memory comes after it.
  Clock kept;

 private:
  ForkGuard made_in_;
  std::byte* alias_;
  std::uint64_t size_;
};

/// Keeps unused blocks for the next allocation of the same size: touching fresh memory takes longer than the copy that
/// the memory is for. Thread-safe.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  /// Returns a block of `size` bytes, which are whole pages. It returns to the pool when its last owner drops it.
  std::shared_ptr<Block> take(std::uint64_t size);
  /// Keeps at most `most` bytes from now on.
  void limit(std::uint64_t most);

 private:
  void put(std::unique_ptr<Block> block) noexcept;
  std::mutex mutex_;
  std::multimap<std::uint64_t, std::unique_ptr<Block>> blocks_;
  std::uint64_t kept_ = 0;
  std::uint64_t most_ = 0;
};

/// Keeps freed addresses mapped without access until there are too many of them, so that using them crashes instead of
/// reaching memory of another owner. Thread-safe.
class Quarantine {
 public:
  ~Quarantine();
  /// Removes a mapping, and keeps its addresses.
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

/// An allocation: device addresses for a block, with a guard page on each side.
class View {
 public:
  /// Maps `size` bytes from the block's start. The host can't access device memory at its addresses; it can access the
  /// other kinds.
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

  /// Removes the host's access to pages, or restores it, according to the block's pending accesses. Returns true if
  /// some access is still removed. Call it with the simulation's lock held.
  bool protect();
  /// The range [begin, end) split at page borders. protect() can't remove the access to the parts before `first_page`
  /// and after `last_page`, since an access must cover the whole of a page.
  struct Edges {
    std::uint64_t begin, first_page, last_page, end;
  };
  Edges edges(std::uint64_t begin, std::uint64_t end) const noexcept;

  bool freed = false;         ///< Put on a queue to be freed. Needs the simulation's lock, as does the next.
  bool is_protected = false;  ///< In the simulation's list of protected views.
  UniqueFd descriptor;        ///< The descriptor to export; empty if the memory isn't exportable.

 private:
  std::shared_ptr<Block> block_;
  std::uint64_t size_;
  Device device_;
  MemoryKind kind_;
  std::shared_ptr<Quarantine> quarantine_;
  ForkGuard made_in_;
  std::byte* address_ = nullptr;
  std::vector<std::uint8_t> rights_;  // of each page, as for mprotect(); empty until access is first removed
};

}  // namespace crossdock::device::sim
