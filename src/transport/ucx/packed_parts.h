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

/// Copies of parts of bodies in one block each, of which not too many are under way. Use it on one thread at a time;
/// the blocks may be dropped on any.
class PackedParts {
 public:
  bool has_room(std::size_t bytes) const noexcept { return bytes <= kMost - std::min(kMost, under_way_->load()); }

  /// Returns a copy of `parts`, which have `bytes`. Throws ResourceError.
  std::shared_ptr<std::byte> pack(std::span<const ByteSpan> parts, std::size_t bytes) {
    std::shared_ptr<std::byte> memory = pool_->allocate(bytes);
    std::byte* to = memory.get();
    for (const ByteSpan part : parts) to = std::ranges::copy(part, to).out;
    std::byte* const begin = memory.get();
    *under_way_ += bytes;
    return {begin, [memory = std::move(memory), under_way = under_way_, bytes](std::byte*) { *under_way -= bytes; }};
  }

 private:
  static constexpr std::size_t kMost = 8 << 20;
  const std::shared_ptr<std::atomic<std::size_t>> under_way_ = std::make_shared<std::atomic<std::size_t>>(0);
  const std::shared_ptr<BodyMemory> pool_ = make_body_pool(kMost);
};

}  // namespace crossdock::transport::ucx
