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

/// A `sycl::queue` of our own, or a copy of another library's, which is the same queue; and its properties. It keeps
/// the queue as long as this object is held. Immutable, except for a mark of the table.
struct SyclQueue : std::enable_shared_from_this<SyclQueue> {
  std::shared_ptr<SyclLibrary> library;
  QueueRef native = nullptr;
  std::size_t hash = 0;
  std::shared_ptr<OpaqueContext> context;       ///< Never null; shared by all queues of this context.
  ContextRef native_context = nullptr;          ///< The same; null for the default context of the device.
  std::shared_ptr<OpaqueDevice> native_device;  ///< Never null; may be a part of the device.
  Device device;
  bool in_order = false;
  bool profiling = false;
  bool sub_device = false;
  std::atomic<bool> noted{false};  ///< The table holds it as a queue that was wrapped lately.

  SyclQueue() = default;
  ~SyclQueue();
  SyclQueue(const SyclQueue&) = delete;
  SyclQueue& operator=(const SyclQueue&) = delete;

  /// Returns this as a Queue, which keeps `owner` too.
  Queue queue(std::shared_ptr<void> owner = nullptr) const;
};

/// The queues that are held: one SyclQueue for each `sycl::queue`, so that equal queues have one native handle, and a
/// handle's queue can be looked up. It keeps no queue alive, except the last few that came from other libraries.
/// Thread-safe.
class QueueTable {
 public:
  /// Returns the entry of a `sycl::queue*`; a new one, with a copy of the queue, if there is none. Throws
  /// InvalidArgumentError if SYCL doesn't list the queue's device, SystemError.
  std::shared_ptr<SyclQueue> wrap(const std::shared_ptr<SyclLibrary>& library, void* native);
  /// Returns the same as wrap(), for a queue that another library holds and may pass again. Keeps it for a while.
  /// Throws InvalidArgumentError for null, too.
  std::shared_ptr<SyclQueue> wrap_theirs(const std::shared_ptr<SyclLibrary>& library, void* native);
  /// Returns the entry of a Queue, which keeps it alive. Throws InvalidArgumentError if it isn't in this table.
  const SyclQueue& find(const Queue& queue) const;
  /// Releases the queues that are held only because they were wrapped lately, and holds none from now on. Queues hold
  /// the library, and the library holds this table.
  void close() noexcept;
  /// Returns all queues that are alive.
  std::vector<std::shared_ptr<SyclQueue>> all() const;

 private:
  friend struct SyclQueue;
  std::shared_ptr<SyclQueue> find_equal(const Api& api, QueueRef queue, std::size_t hash) const;
  void remove(const SyclQueue& queue) noexcept;
  /// Holds a queue for a while, so that a caller that passes one temporary array after another finds its queue here.
  void note_wrapped(std::shared_ptr<SyclQueue> queue) noexcept;
  /// Takes a queue that isn't held any more, and deletes the oldest of those taken before. Intel's run time for the CPU
  /// (2026.22) hangs if a queue is deleted before the thread that ran its last work has released it. That may be after
  /// that work's event is complete, and no call tells when. So the last queues live on, also when this table is
  /// destroyed.
  void retire(const Api& api, QueueRef queue) noexcept;

  mutable std::shared_mutex mutex_;
  // Entries remove themselves before they are destroyed, so all entries in here may be read under the lock.
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
