#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace crossdock::transport {

/// Memory in which a connection receives bodies that arrive by value. A caller gives it to a connection so that bodies
/// arrive directly where they will be used. Thread-safe.
class BodyMemory {
 public:
  virtual ~BodyMemory() = default;
  /// Returns `size` writable bytes, 64-aligned and readable by the host. The returned owner frees them when the last
  /// batch is dropped, on any thread, possibly after this object was destroyed. The caller has bounded `size`, but the
  /// value may come from a hostile peer: reserve address space, and no pages for bytes that haven't arrived yet. Throws
  /// ResourceError.
  virtual std::shared_ptr<std::byte> allocate(std::uint64_t size) = 0;
};

/// Makes a pool that keeps released memory, with its pages, for the next body of about the same size. It keeps up to
/// `max_idle` bytes, or the size of the largest body so far if that is more. Transports use such a pool unless another
/// memory is given.
std::shared_ptr<BodyMemory> make_body_pool(std::uint64_t max_idle = 64ull << 20);

}  // namespace crossdock::transport
