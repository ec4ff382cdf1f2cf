#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "api.h"
#include "crossdock/device/queue.h"

namespace crossdock::device::sycl {

class SyclLibrary;

/// A `sycl::queue` of our own, or a copy of somebody else's: the same queue, kept for as long as anybody holds this,
/// and what we know of it. Immutable, but for a mark of the table's.
struct SyclQueue : std::enable_shared_from_this<SyclQueue> {
  std::shared_ptr<SyclLibrary> library;
  QueueRef native = nullptr;
  std::size_t hash = 0;
  std::shared_ptr<OpaqueContext> context;       ///< Never null.
  std::shared_ptr<OpaqueDevice> native_device;  ///< Never null; may be a part of the device.
  Device device;
  bool in_order = false;
  bool profiling = false;
  bool sub_device = false;
  std::atomic<bool> noted{false};  ///< The table holds it as one that was wrapped lately.

  SyclQueue() = default;
  ~SyclQueue();
  SyclQueue(const SyclQueue&) = delete;
  SyclQueue& operator=(const SyclQueue&) = delete;

  /// This as a Queue, which keeps `owner` too.
  Queue queue(std::shared_ptr<void> owner = nullptr) const;
};

/// Queues that somebody holds: one SyclQueue for each `sycl::queue`, so that equal queues have one native handle, and
/// what a handle stands for can be looked up. Keeps none alive but the last few that came from others. Thread-safe.
class QueueTable {
 public:
  /// The entry of a `sycl::queue*`; a new one, with a copy of it, if there is none. Throws InvalidArgumentError (of a
  /// device that SYCL doesn't list), SystemError.
  std::shared_ptr<SyclQueue> wrap(const std::shared_ptr<SyclLibrary>& library, void* native);
  /// The same, of a queue that somebody else holds and may hand over again: it is kept for a while.
  std::shared_ptr<SyclQueue> wrap_theirs(const std::shared_ptr<SyclLibrary>& library, void* native);
  /// The entry of a Queue, which keeps it alive; null if it isn't of this table.
  const SyclQueue* find(const Queue& queue) const;
  /// Releases the queues that are held only because they were wrapped lately, and holds none from now on: they hold
  /// the library, which holds this.
  void close() noexcept;
  /// All that are alive.
  std::vector<std::shared_ptr<SyclQueue>> all() const;

 private:
  friend struct SyclQueue;
  std::shared_ptr<SyclQueue> find_equal(const Api& api, QueueRef queue, std::size_t hash) const;
  void remove(const SyclQueue& queue) noexcept;
  /// Holds a queue for a while: who hands over one temporary array after another finds it here.
  void note_wrapped(std::shared_ptr<SyclQueue> queue) noexcept;
  /// Takes a queue that nobody holds any more, and deletes the oldest of those taken before. Intel's run time for the
  /// CPU (2026.22) hangs if a queue is deleted before the thread that ran its last work has released it, which may be
  /// after that work's event is complete, and nothing tells when: so the last ones live on, also when this goes.
  void retire(const Api& api, QueueRef queue) noexcept;

  mutable std::shared_mutex mutex_;
  // Entries take themselves out before they go, so what is in here may be looked at under the lock.
  std::unordered_multimap<std::size_t, SyclQueue*> by_hash_;
  std::unordered_map<const void*, SyclQueue*> by_native_;
  std::mutex wrapped_mutex_;
  std::array<std::shared_ptr<SyclQueue>, 8> wrapped_lately_{};
  std::size_t next_wrapped_ = 0;
  bool closed_ = false;
  std::array<QueueRef, 64> retired_{};
  std::size_t next_retired_ = 0;
};

}  // namespace crossdock::device::sycl
