#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "core/bytes.h"
#include "transport/body_memory.h"

namespace crossdock::transport::ucx {

/// Memory for copies of parts of bodies, which the connections of a context share. Thread-safe.
struct PackedMemory {
  const std::shared_ptr<BodyMemory> pool = make_body_pool(8 << 20);
  std::atomic<std::size_t> under_way{0};  ///< Bytes of the copies that aren't dropped.
};

/// Copies of parts of one connection's bodies in one block each, of which not too many are under way. Use it on one
/// thread at a time; the blocks may be dropped on any.
class PackedParts {
 public:
  static constexpr std::size_t kMost = 8 << 20;
  /// Of all connections that share memory. Each of several threads may go over it by a block.
  static constexpr std::size_t kMostShared = 64 << 20;

  explicit PackedParts(std::shared_ptr<PackedMemory> shared) : shared_(std::move(shared)) {}

  bool has_room(std::size_t bytes) const noexcept {
    return bytes <= kMost - std::min(kMost, under_way_->load()) &&
           bytes <= kMostShared - std::min(kMostShared, shared_->under_way.load());
  }

  /// Returns a copy of `parts`, which have `bytes`. Throws ResourceError.
  std::shared_ptr<std::byte> pack(std::span<const ByteSpan> parts, std::size_t bytes) {
    std::shared_ptr<std::byte> memory = shared_->pool->allocate(bytes);
    std::byte* const begin = memory.get();
    std::byte* to = begin;
    for (const ByteSpan part : parts) to = std::ranges::copy(part, to).out;
    *under_way_ += bytes;
    shared_->under_way += bytes;
    return {begin, [memory = std::move(memory), under_way = under_way_, shared = shared_, bytes](std::byte*) {
              *under_way -= bytes;
              shared->under_way -= bytes;
            }};
  }

 private:
  const std::shared_ptr<PackedMemory> shared_;
  const std::shared_ptr<std::atomic<std::size_t>> under_way_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace crossdock::transport::ucx
