#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "crossdock/core/error.h"
#include "crossdock/core/export.h"
#include "crossdock/device/device.h"
#include "crossdock/device/native.h"

namespace crossdock::device {

/// A queue of a device's work (a CUDA stream, a SYCL queue), in-order or not (Context::in_order()): a native handle and
/// its owner. It may be copied freely: copies are the same queue, which ends with the last copy. That end waits for
/// nothing. Safe to share between threads.
class Queue {
 public:
  /// For drivers; other code gets queues from Context::make_queue() and wrap_queue(). `owner` keeps `native` alive, and
  /// ends the queue with its last copy; null if the caller keeps it alive. `native_context` is as below.
  Queue(Device device, NativeQueue native, std::shared_ptr<void> owner, NativeContext native_context = {}) noexcept
      : device_(device), native_(native.get()), native_context_(native_context), owner_(std::move(owner)) {}
  /// For a handle that means another queue on every thread (CUDA's per-thread default stream): makes the queue that the
  /// handle means on the calling thread.
  static Queue of_this_thread(Device device, NativeQueue native, std::shared_ptr<void> owner,
                              NativeContext native_context = {}) noexcept {
    Queue queue(device, native, std::move(owner), native_context);
    queue.thread_ = this_thread();
    return queue;
  }

  /// The device that its work runs on. Valid as long as this copy.
  const Device& device() const noexcept { return device_; }
  /// Returns the queue of the device's interface (`cudaStream_t`, `sycl::queue*`); null for the host's queue.
  void* native() const noexcept { return native_; }
  /// Returns the native context that it belongs to; none if that is its device's usual one. See
  /// Context::native_context().
  NativeContext native_context() const noexcept { return native_context_; }
  /// Returns the same, which keeps it alive as long as the queue's owner does.
  std::shared_ptr<void> shared_native_context() const noexcept {
    return native_context_ ? std::shared_ptr<void>(owner_, native_context_.get()) : nullptr;
  }
  /// Returns true if the handle means this queue on one thread alone: no other thread may put work on it, or record on
  /// it. Work that may be needed later from another thread (memory to free) is put on another queue that is ordered
  /// after it.
  bool thread_bound() const noexcept { return thread_ != 0; }
  /// Returns true if the queue may be used on the calling thread.
  bool usable_here() const noexcept { return !thread_bound() || thread_ == this_thread(); }

  /// Returns true for the same queue: drivers give one queue one native handle. Default streams have the same handle in
  /// every context.
  bool operator==(const Queue& other) const noexcept {
    return device_ == other.device_ && native_ == other.native_ && native_context_ == other.native_context_ &&
           thread_ == other.thread_;
  }

 private:
  /// Returns a number that no other thread of the process has or had. The system's thread ids may be reused.
  CROSSDOCK_EXPORT static std::uint64_t this_thread() noexcept;

  Device device_;
  void* native_;
  NativeContext native_context_;
  std::shared_ptr<void> owner_;
  std::uint64_t thread_ = 0;
};

/// A point in a queue's work: a native handle, its owner, and the failure that it may carry. It may be copied freely:
/// copies are the same event, and the native event is destroyed with the last copy. Safe to share between threads.
///
/// A default-constructed event is complete and carries no failure. The host driver returns such events, and a null
/// `sync_event` of the Arrow C Device data interface means one.
class CROSSDOCK_EXPORT Event {
 public:
  Event() noexcept = default;
  /// `owner` keeps it alive, and destroys it with its last copy; null if the caller keeps it alive.
  Event(NativeEvent native, std::shared_ptr<void> owner);
  /// Makes an event for work that failed before it had a native event.
  static Event failed(std::shared_ptr<const Error> failure);

  /// Returns true for a default-constructed event: there is nothing to wait for, and no failure. Costs no call.
  bool none() const noexcept { return state_ == nullptr; }
  /// Returns the native handle; null if there is nothing to wait for, unless the event failed.
  void* native() const noexcept;
  /// Returns the native handle, or throws the failure that the event carries. For callers that can't go on without the
  /// handle.
  void* need() const;

  /// Returns the failure of the work before this event, as far as it is known; null if there is none. Waiting for the
  /// event, or ordering a queue after it, throws it.
  std::shared_ptr<const Error> failure() const;
  /// For drivers: makes this event and its copies carry `failure` from now on. The first failure stays. Throws
  /// InvalidArgumentError for a default-constructed event.
  void fail(std::shared_ptr<const Error> failure);
  /// Throws the failure, if there is one, as the class of its code.
  void check() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace crossdock::device
