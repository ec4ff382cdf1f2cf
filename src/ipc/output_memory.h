#pragma once

#include <cstddef>
#include <memory>

namespace crossdock::ipc {

/// 64-aligned memory that bodies are decompressed, compressed, swapped or moved into. Blocks that are dropped, on
/// whatever thread, are kept for the next body of about their size, two at most: touching fresh pages costs more than
/// decoding into them. take() on one thread at a time.
class OutputMemory {
 public:
  OutputMemory();
  ~OutputMemory();
  OutputMemory(OutputMemory&&) noexcept;
  OutputMemory& operator=(OutputMemory&&) noexcept;
  /// At least `size` bytes, not initialised; never null. Throws ResourceError.
  std::shared_ptr<std::byte> take(std::size_t size);

 private:
  class Places;
  std::shared_ptr<Places> places_;
};

}  // namespace crossdock::ipc
