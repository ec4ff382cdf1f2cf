#pragma once

#include <cstddef>
#include <memory>

namespace crossdock::ipc {

/// 64-aligned memory for bodies. Blocks that are dropped, on whatever thread, are kept for the next body of about their
/// size, two at most: touching fresh pages costs more than decoding into them. take() on one thread at a time.
class BodyMemory {
 public:
  BodyMemory();
  ~BodyMemory();
  BodyMemory(BodyMemory&&) noexcept;
  BodyMemory& operator=(BodyMemory&&) noexcept;
  /// At least `size` bytes, not initialised; never null. Throws ResourceError.
  std::shared_ptr<std::byte> take(std::size_t size);

 private:
  class Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace crossdock::ipc
