#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "context_hold.h"

namespace crossdock::device::cuda {

/// Owners of memory that wait for a queue's work before they are dropped. CUDA lets no callback of its own call CUDA,
/// as deleters do, so they are dropped by whoever looks next. Thread-safe.
class Parked {
 public:
  explicit Parked(std::shared_ptr<ContextHold> hold) : hold_(std::move(hold)) {}
  /// Waits for what is still parked.
  ~Parked();
  Parked(const Parked&) = delete;
  Parked& operator=(const Parked&) = delete;

  /// Keeps `owner` until the work that is on `stream` now is done. Where CUDA can't note that (no memory for an event),
  /// waits for it. For who has the context current.
  void park(std::shared_ptr<void> owner, CUstream stream);
  /// Drops those whose work is done. One load where there are none. For who has the context current.
  void sweep() noexcept;

 private:
  struct Entry {
    CUevent done;
    std::shared_ptr<void> owner;
  };
  std::shared_ptr<ContextHold> hold_;
  std::atomic<std::size_t> count_{0};
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace crossdock::device::cuda
