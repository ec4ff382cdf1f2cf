#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "crossdock/device/region.h"

namespace crossdock::session {

/// Recycled memory of one live stream: blocks in regions that are made as needed and stay until the stream is gone.
/// Thread-safe: the puller allocates, the I/O thread gives back.
class RegionPool {
 public:
  struct Block {
    std::uint32_t region = 0;  ///< Index.
    std::uint64_t offset = 0;  ///< Never 0, but where there is no room.
    std::uint64_t size = 0;
  };

  /// `limit`: bytes that may be out at once. Beyond it a block is given while no more than its own size is out: the
  /// batch in a consumer's hand, and the next. `on_starved` is called, with no lock held, when allocate() begins to
  /// wait.
  RegionPool(std::uint64_t limit, std::function<void()> on_starved)
      : limit_(limit), on_starved_(std::move(on_starved)) {}

  /// Waits until there is room, or stop(). Nothing after stop(). `kept`: bytes of what is out that won't come back
  /// before the stream's end, which don't count here. After pass_by_value(), an empty block where there is no room.
  /// Throws ResourceError.
  std::optional<Block> allocate(std::uint64_t size, std::uint64_t kept = 0);
  void give_back(const Block& block) noexcept;
  /// Don't wait for room any more, until the next give_back().
  void pass_by_value() noexcept;
  void stop() noexcept;
  /// Gives all memory back, whatever is out. Only when nobody uses the pool any more.
  void clear() noexcept;

  /// True while allocate() waits for memory to come back.
  bool starved() const;
  std::shared_ptr<device::Region> region(std::uint32_t index) const;

 private:
  struct Range {
    std::uint64_t offset;
    std::uint64_t size;
  };
  struct Slab {
    std::shared_ptr<device::Region> region;
    std::vector<Range> free;  // by offset, neighbours merged; has room for every block that is out to come back
    std::size_t out = 0;      // blocks
  };
  std::optional<Block> carve(std::uint64_t size);
  std::uint64_t idle_bytes() const;

  const std::uint64_t limit_;
  const std::function<void()> on_starved_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::vector<Slab> slabs_;
  std::uint64_t out_ = 0;
  bool waiting_ = false;
  bool by_value_ = false;
  bool stopped_ = false;
};

}  // namespace crossdock::session
