#include "ipc/internal/output_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::ipc {
namespace {

// A block is reused if it is at most twice as large as needed, plus this tolerance.
constexpr std::size_t kSmallChange = 1 << 16;

struct Block {
  std::size_t capacity;
  std::byte* data;
};

void free_block(Block* block) noexcept {
  if (block == nullptr) return;
  ::operator delete (block->data, std::align_val_t{kBufferAlignment});
  delete block;
}

}  // namespace

class OutputMemory::Places {
 public:
  Places() = default;
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;
  ~Places() { close(); }

  Block* find(std::size_t size) noexcept {
    Block* found = nullptr;
    for (auto& place : places_) {
      Block* block = place.exchange(nullptr);
      if (block == nullptr) continue;
      if (found == nullptr && block->capacity >= size && block->capacity / 2 <= size + kSmallChange) {
        found = block;
      } else {
        put(block);
      }
    }
    return found;
  }

  void put(Block* block) noexcept {
    for (auto& place : places_) {
      if (closed_.load()) break;
      Block* expected = nullptr;
      if (place.compare_exchange_strong(expected, block)) {
        if (closed_.load()) free_block(place.exchange(nullptr));
        return;
      }
    }
    free_block(block);
  }

  void close() noexcept {
    closed_.store(true);
    for (auto& place : places_) free_block(place.exchange(nullptr));
  }

 private:
  std::array<std::atomic<Block*>, 2> places_{};
  std::atomic<bool> closed_{false};
};

OutputMemory::OutputMemory() : places_(std::make_shared<Places>()) {}
OutputMemory::~OutputMemory() {
  if (places_) places_->close();
}
OutputMemory::OutputMemory(OutputMemory&&) noexcept = default;
OutputMemory& OutputMemory::operator=(OutputMemory&& other) noexcept {
  if (places_ && places_ != other.places_) places_->close();
  places_ = std::move(other.places_);
  return *this;
}

std::shared_ptr<std::byte> OutputMemory::take(std::size_t size) {
  Block* block = places_->find(size);
  if (block == nullptr) {
    auto made = std::make_unique<Block>();
    made->capacity = std::max<std::size_t>(size, 1);
    made->data =
        static_cast<std::byte*>(::operator new (made->capacity, std::align_val_t{kBufferAlignment}, std::nothrow));
    if (made->data == nullptr) {
      throw ResourceError("there is no memory for a body of " + std::to_string(size) + " bytes");
    }
    block = made.release();
  }
  std::byte* const data = block->data;
  // On a throw of this constructor the deleter is called. NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
  return {data, [places = places_, block](std::byte*) noexcept { places->put(block); }};
}

}  // namespace crossdock::ipc
