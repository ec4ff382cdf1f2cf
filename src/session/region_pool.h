#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device/region.h"
#include "session/consumer.h"

namespace crossdock::session {

/// Recycled memory of one live stream: blocks in regions that are made as needed and count for the stream's consumer.
/// Thread-safe: the source's side allocates, the I/O thread frees. No call waits.
class RegionPool {
 public:
  struct Block {
    std::uint32_t region = 0;  ///< Its index.
    std::uint64_t offset = 0;  ///< Never 0, except for an empty block: there was no room.
    std::uint64_t size = 0;
  };
  /// Blocks that are out until the stream's end, so waiting for them would be useless.
  struct Kept {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
  };

  explicit RegionPool(std::shared_ptr<Consumer> consumer) : consumer_(std::move(consumer)) {}
  ~RegionPool() { clear(); }
  RegionPool(const RegionPool&) = delete;
  RegionPool& operator=(const RegionPool&) = delete;

  /// Returns nullopt if there is no room, or after stop(). Regions count for the consumer's limit, even those without a
  /// block in use. Over the limit, a block is still allocated if at most one block, or at most the block's own size, is
  /// out besides `kept`, and if the consumer's other streams are within the limit. So the batch that the consumer works
  /// on and the next one always fit. After pass_by_value(), returns an empty block if there is no room. Use it from one
  /// thread at a time. Throws ResourceError.
  std::optional<Block> allocate(std::uint64_t size, const Kept& kept);
  /// Returns true if allocate() waits for room, so that it should be called again.
  bool free(const Block& block) noexcept;
  /// Makes allocate() not wait for room, until the next free().
  void pass_by_value() noexcept;
  /// Refuses allocations from now on, and frees each region as soon as none of its blocks is in use.
  void stop() noexcept;
  /// Frees all memory, including blocks that are in use.
  void clear() noexcept;

  /// True while allocate() waits for blocks to be freed.
  bool starved() const;
  /// Returns null for a region that was freed.
  std::shared_ptr<device::Region> region(std::uint32_t index) const;
  /// Whether take_dropped() has indices to return. Takes no lock.
  bool has_dropped() const noexcept { return any_dropped_.load(std::memory_order_acquire); }
  /// Appends the indices of regions that were freed since the last call; these indices may name other regions later.
  /// Called before a message that names an index is sent.
  void take_dropped(std::vector<std::uint32_t>* indices);

 private:
  struct Range {
    std::uint64_t offset;
    std::uint64_t size;
  };
  struct Slab {
    std::shared_ptr<device::Region> region;  // null: freed; the index can be reused once take_dropped() has reported it
    std::vector<Range> free;                 // by offset, neighbors merged; has capacity for all blocks in use
    std::size_t out = 0;                     // blocks in use
    bool dropped = false;                    // in dropped_
  };
  std::optional<Block> take_block(std::uint64_t size);
  std::uint64_t idle_bytes() const;
  std::uint64_t grant(std::uint64_t need, const Kept& kept);
  void drop_regions(bool all) noexcept;
  std::shared_ptr<device::Region> drop_one(bool all) noexcept;
  void add(std::shared_ptr<device::Region> region);

  const std::shared_ptr<Consumer> consumer_;
  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> dropped_;  // has capacity for all slabs
  std::atomic<bool> any_dropped_{false};
  std::uint64_t regions_ = 0;  // bytes
  std::uint64_t out_ = 0;      // bytes
  std::uint64_t blocks_out_ = 0;
  bool waiting_ = false;
  bool by_value_ = false;
  bool stopped_ = false;
};

}  // namespace crossdock::session
