#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "crossdock/device/region.h"
#include "session/consumer.h"

namespace crossdock::session {

/// Recycled memory of one live stream: blocks in regions that are made as needed, and counted as its consumer's.
/// Thread-safe: the source's side allocates, the I/O thread frees. Nothing waits.
class RegionPool {
 public:
  struct Block {
    std::uint32_t region = 0;  ///< Index.
    std::uint64_t offset = 0;  ///< Never 0, but where there is no room.
    std::uint64_t size = 0;
  };
  /// What is out and stays out until the stream's end: it is no use to wait for it.
  struct Kept {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
  };

  explicit RegionPool(std::shared_ptr<Consumer> consumer) : consumer_(std::move(consumer)) {}
  ~RegionPool() { clear(); }
  RegionPool(const RegionPool&) = delete;
  RegionPool& operator=(const RegionPool&) = delete;

  /// Nothing where there is no room, or after stop(). Regions count against the consumer's limit, those with nothing
  /// out as well. Beyond it a block is given while no more is out than one block, or the block's own size, and the
  /// consumer's other streams are within the limit: so a batch in hand and the next always fit. After pass_by_value()
  /// an empty block where there is no room. One thread at a time. Throws ResourceError.
  std::optional<Block> allocate(std::uint64_t size, const Kept& kept);
  /// True if allocate() waits for room: it is worth asking again.
  bool free(const Block& block) noexcept;
  /// Don't wait for room any more, until the next free().
  void pass_by_value() noexcept;
  /// Nothing is allocated from now on, and a region goes as soon as nothing of it is out.
  void stop() noexcept;
  /// Gives all memory back, whatever is out.
  void clear() noexcept;

  /// True while allocate() waits for memory to come back.
  bool starved() const;
  /// Null for a region that has gone.
  std::shared_ptr<device::Region> region(std::uint32_t index) const;
  /// Whether take_dropped() has something. No lock.
  bool has_dropped() const noexcept { return any_dropped_.load(std::memory_order_acquire); }
  /// Appends the indices of regions that have gone since the last call: these may name other regions later. Called
  /// before a message that names an index is sent.
  void take_dropped(std::vector<std::uint32_t>* indices);

 private:
  struct Range {
    std::uint64_t offset;
    std::uint64_t size;
  };
  struct Slab {
    std::shared_ptr<device::Region> region;  // null: gone, and the index is free once its going is taken note of
    std::vector<Range> free;  // by offset, neighbours merged; has room for every block that is out to come back
    std::size_t out = 0;      // blocks
    bool dropped = false;     // in dropped_
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
  std::vector<std::uint32_t> dropped_;  // has room for all slabs
  std::atomic<bool> any_dropped_{false};
  std::uint64_t regions_ = 0;  // bytes
  std::uint64_t out_ = 0;      // bytes
  std::uint64_t blocks_out_ = 0;
  bool waiting_ = false;
  bool by_value_ = false;
  bool stopped_ = false;
};

}  // namespace crossdock::session
