#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "crossdock/core/export.h"

namespace crossdock::transport {

/// Where bodies that come by value are received: given to a connection, so that they land where they will be used.
/// Thread-safe.
class CROSSDOCK_EXPORT BodyMemory {
 public:
  virtual ~BodyMemory() = default;
  /// `size` writable bytes, 64-aligned, host-readable; the owner frees them when the last batch is dropped, on
  /// whatever thread, also after this object. `size` was bounded by the caller, but may be a hostile peer's word: take
  /// address space, not pages, for what hasn't come yet. Throws ResourceError.
  virtual std::shared_ptr<std::byte> allocate(std::uint64_t size) = 0;
};

/// Keeps what comes back, with its pages, for the next body of about the size: up to `max_idle` bytes, or the largest
/// body there was if that is more. This is what transports use where no other is given.
CROSSDOCK_EXPORT std::shared_ptr<BodyMemory> make_body_pool(std::uint64_t max_idle = 64ull << 20);

}  // namespace crossdock::transport
