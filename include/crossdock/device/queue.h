#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "crossdock/core/export.h"
#include "crossdock/device/device.h"

namespace crossdock::device {

/// An in-order queue of a device's work (a CUDA stream, a SYCL queue): a native handle and its owner. Copied freely:
/// copies are the same queue, which ends with the last of them; that waits for nothing. Safe to share between threads.
class Queue {
 public:
  /// For drivers; others get theirs from Context::make_queue() and wrap_queue(). `owner` keeps `native` alive, and ends
  /// the queue with its last copy; null if somebody else sees to that.
  Queue(Device device, void* native, std::shared_ptr<void> owner) noexcept
      : device_(device), native_(native), owner_(std::move(owner)) {}
  /// The same of a handle that means another queue on every thread (CUDA's per-thread default stream): this one is the
  /// one that the handle means on the calling thread.
  static Queue of_this_thread(Device device, void* native, std::shared_ptr<void> owner) noexcept {
    Queue queue(device, native, std::move(owner));
    queue.thread_ = this_thread();
    return queue;
  }

  const Device& device() const noexcept { return device_; }
  /// What the device's interface calls a queue (`cudaStream_t`, `sycl::queue*`); null for the host's.
  void* native() const noexcept { return native_; }
  /// True if the handle means this queue on one thread alone: no other may put work on it, or record on it. What is to
  /// last (memory to free) is put on another queue that is ordered after it.
  bool thread_bound() const noexcept { return thread_ != 0; }
  /// True if it may be used on the calling thread.
  bool usable_here() const noexcept { return !thread_bound() || thread_ == this_thread(); }

  /// True for the same queue: drivers give one queue one native handle.
  bool operator==(const Queue& other) const noexcept {
    return device_ == other.device_ && native_ == other.native_ && thread_ == other.thread_;
  }

 private:
  /// A number that no other thread of the process has or had, which can't be said of the system's ids.
  CROSSDOCK_EXPORT static std::uint64_t this_thread() noexcept;

  Device device_;
  void* native_;
  std::shared_ptr<void> owner_;
  std::uint64_t thread_ = 0;
};

}  // namespace crossdock::device
