#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/unique_fd.h"
#include "device/region.h"

namespace crossdock::device {

/// A memory file and its mapping, which a pool uses again and again. It has two states. *Shared*: writes go to the
/// file. *Private*: the same addresses show the file as it was when the block was made private, and each page that is
/// written to becomes a copy of its own; the shared mapping has moved to other addresses, as a region. To go from one
/// state to the other moves page tables, and copies nothing. Not thread-safe.
class PoolBlock {
 public:
  /// The unused bytes before the data: an address of 0 means "no buffer" to consumers.
  static constexpr std::uint64_t kHeader = 64;

  /// Makes a block of `bytes` bytes, which are whole pages, in the state shared. `backed`: takes memory for all pages
  /// now, which costs less than at the first write to each. Throws ResourceError, SystemError.
  PoolBlock(std::uint64_t bytes, bool backed);
  /// Frees the memory, on another thread if it is large.
  ~PoolBlock();
  PoolBlock(const PoolBlock&) = delete;
  PoolBlock& operator=(const PoolBlock&) = delete;

  std::byte* data() const noexcept { return start_ + kHeader; }
  std::uint64_t size() const noexcept { return bytes_ - kHeader; }  ///< Of the data.
  std::uint64_t bytes() const noexcept { return bytes_; }
  const std::byte* start() const noexcept { return start_; }

  bool is_private() const noexcept { return region_ != nullptr || inherited_; }
  /// Whether it is memory from the parent of a fork, without a file: it can't be lent, or made shared.
  bool inherited() const noexcept { return inherited_; }
  /// Takes memory for all pages, as consumers require. Keeps the content. Throws ResourceError, SystemError.
  void back() const;
  /// Makes the block private, for lending it or for a fork. A write that another thread does meanwhile is in the region
  /// or is private; none is lost. Throws ResourceError, and then the block is shared as before.
  void make_private();
  /// Makes the block shared again, with the region's content. Private writes are lost. Nobody may use the memory or the
  /// region. Returns false if the system refused: then the block can only be destroyed.
  bool make_shared() noexcept;
  /// The memory that is lent, of RegionKind::kRecycled. Null in the state shared, and in a forked child.
  std::shared_ptr<const Region> region() const noexcept { return region_; }
  /// Frees the private copies of pages. The memory shows the region's content then, and may be used by nobody.
  void drop_private_pages() const noexcept;

  /// In a forked child: frees what it has of the block but the private mapping, if there is one. That stays until the
  /// block is destroyed.
  void become_inherited() noexcept;

 private:
  std::byte* start_ = nullptr;
  std::uint64_t bytes_ = 0;
  UniqueFd fd_;  // read-only; in region_ while the block is private
  std::shared_ptr<Region> region_;
  bool inherited_ = false;
};

}  // namespace crossdock::device
