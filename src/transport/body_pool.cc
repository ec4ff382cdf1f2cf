#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/memory_limit.h"
#include "crossdock/core/error.h"
#include "transport/body_memory.h"

namespace crossdock::transport {
namespace {

constexpr std::uint64_t kPage = 4096;

struct Unmap {
  std::uint64_t size = 0;
  void operator()(std::byte* data) const noexcept { ::munmap(data, size); }
};

/// A private mapping: a page is allocated when bytes are written to it.
struct Block {
  std::unique_ptr<std::byte, Unmap> data;
  std::uint64_t size() const noexcept { return data.get_deleter().size; }
};

Block make_block(std::uint64_t wanted) {
  const std::uint64_t size = align_up(wanted, kPage);
  check_memory_room(size, "a body by value");
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw_errno(errno, "allocating memory for a body of " + std::to_string(wanted) + " bytes");
  return {{static_cast<std::byte*>(at), Unmap{size}}};
}

/// State that the pool shares with the bodies in use.
class FreeBlocks {
 public:
  FreeBlocks(std::uint64_t max_idle, LargeBodies large) : max_idle_(max_idle), large_(large) {
    idle_.reserve(kMaxBlocks);
  }

  Block take(std::uint64_t size) {
    const std::lock_guard lock(mutex_);
    // Finds the best fit that wastes at most half of its size; if there are several, the one used last.
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      if (it->size() < size || it->size() > 2 * align_up(size, kPage) + kSmall) continue;
      if (best == idle_.end() || it->size() <= best->size()) best = it;
    }
    if (best == idle_.end()) return {};
    Block block = std::move(*best);
    idle_bytes_ -= block.size();
    idle_.erase(best);
    return block;
  }

  void put(Block block) noexcept {
    std::array<Block, kMaxBlocks> dropped;  // unmapped without the lock
    std::size_t n_dropped = 0;
    const std::lock_guard lock(mutex_);
    if (closed_ || (large_ == LargeBodies::kFree && block.size() > max_idle_)) return;
    while (!idle_.empty() && (idle_.size() == kMaxBlocks || idle_bytes_ + block.size() > max_idle_)) {
      idle_bytes_ -= idle_.front().size();
      dropped[n_dropped++] = std::move(idle_.front());
      idle_.erase(idle_.begin());
    }
    idle_bytes_ += block.size();
    idle_.push_back(std::move(block));  // capacity was reserved
  }

  void close() noexcept {
    std::vector<Block> dropped;
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(idle_);
  }

 private:
  static constexpr std::size_t kMaxBlocks = 64;
  static constexpr std::uint64_t kSmall = 64 << 10;

  const std::uint64_t max_idle_;
  const LargeBodies large_;
  std::mutex mutex_;
  std::vector<Block> idle_;  // the block used last is at the end
  std::uint64_t idle_bytes_ = 0;
  bool closed_ = false;
};

class BodyPool final : public BodyMemory {
 public:
  BodyPool(std::uint64_t max_idle, LargeBodies large) : free_blocks_(std::make_shared<FreeBlocks>(max_idle, large)) {}
  ~BodyPool() override { free_blocks_->close(); }
  BodyPool(const BodyPool&) = delete;
  BodyPool& operator=(const BodyPool&) = delete;

  std::shared_ptr<std::byte> allocate(std::uint64_t size) override {
    const std::uint64_t wanted = std::max<std::uint64_t>(size, 1);
    Block block = free_blocks_->take(wanted);
    if (!block.data) block = make_block(wanted);
    std::byte* const data = block.data.get();
    return {data, [free_blocks = free_blocks_, held = std::move(block)](std::byte*) mutable {
              free_blocks->put(std::move(held));
            }};
  }

 private:
  std::shared_ptr<FreeBlocks> free_blocks_;
};

}  // namespace

void BodyMemory::write(std::byte* to, ByteSpan from) { std::ranges::copy(from, to); }

std::shared_ptr<BodyMemory> make_body_pool(std::uint64_t max_idle, LargeBodies large) {
  return std::make_shared<BodyPool>(max_idle, large);
}

std::shared_ptr<BodyMemory> make_body_pool_for(ChannelRole role) {
  return make_body_pool(64ull << 20, role == ChannelRole::kMessages ? LargeBodies::kFree : LargeBodies::kKeepLast);
}

}  // namespace crossdock::transport
