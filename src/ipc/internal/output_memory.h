#pragma once

#include <cstddef>
#include <memory>

namespace crossdock::ipc {

/// Allocates 64-aligned memory for bodies that are decompressed, compressed, swapped or moved. Blocks that are dropped,
/// on any thread, are kept for the next body of about the same size, two at most: first access to new pages costs more
/// than decoding into them. take() is for one thread at a time.
class OutputMemory {
 public:
  OutputMemory();
  ~OutputMemory();
  OutputMemory(OutputMemory&&) noexcept;
  OutputMemory& operator=(OutputMemory&&) noexcept;
  /// Returns at least `size` bytes, not initialised; never null. Throws ResourceError.
  std::shared_ptr<std::byte> take(std::size_t size);

 private:
  class Places;
  std::shared_ptr<Places> places_;
};

}  // namespace crossdock::ipc
