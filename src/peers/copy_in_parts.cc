#include "peers/copy_in_parts.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>

namespace crossdock::peers {
namespace {

/// What one thread copies at a time. Below twice that, to wake another thread gains nothing.
constexpr std::uint64_t kPiece = 4ull << 20;

/// The pieces of a copy, which threads take one after the other. A thread that comes late finds none, and touches no
/// memory but this object.
class Pieces {
 public:
  explicit Pieces(const std::vector<CopyPart>& parts) {
    for (CopyPart part : parts) {
      while (part.size > 0) {
        const std::uint64_t size = std::min(part.size, kPiece);
        pieces_.push_back({part.to, part.from, size});
        part = {part.to + size, part.from + size, part.size - size};
      }
    }
  }
  std::size_t size() const noexcept { return pieces_.size(); }

  void copy() noexcept {
    for (;;) {
      const std::size_t number = next_.fetch_add(1, std::memory_order_relaxed);
      if (number >= pieces_.size()) return;
      const CopyPart& piece = pieces_[number];
      std::memcpy(piece.to, piece.from, piece.size);
      const std::lock_guard lock(mutex_);
      if (++copied_ == pieces_.size()) all_copied_.notify_all();
    }
  }
  /// Waits for the pieces that other threads have taken.
  void wait() noexcept {
    std::unique_lock lock(mutex_);
    all_copied_.wait(lock, [this] { return copied_ == pieces_.size(); });
  }

 private:
  std::vector<CopyPart> pieces_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable all_copied_;
  std::size_t copied_ = 0;
};

}  // namespace

void copy_in_parts(const std::vector<CopyPart>& parts, const CopyHelp& help) {
  std::uint64_t total = 0;
  for (const CopyPart& part : parts) total += part.size;
  if (total < 2 * kPiece || !help.run) {
    for (const CopyPart& part : parts) std::memcpy(part.to, part.from, part.size);
    return;
  }
  const auto pieces = std::make_shared<Pieces>(parts);
  try {
    for (std::size_t i = 0; i < std::min(help.most, pieces->size() - 1); ++i) {
      help.run([pieces] { pieces->copy(); });
    }
  } catch (const std::exception&) {
    // No thread, or the hub ends: this one copies.
  }
  pieces->copy();
  pieces->wait();
}

}  // namespace crossdock::peers
