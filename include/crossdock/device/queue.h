#pragma once

#include <memory>
#include <utility>

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

  const Device& device() const noexcept { return device_; }
  /// What the device's interface calls a queue (`cudaStream_t`, `sycl::queue*`); null for the host's.
  void* native() const noexcept { return native_; }

 private:
  Device device_;
  void* native_;
  std::shared_ptr<void> owner_;
};

}  // namespace crossdock::device
