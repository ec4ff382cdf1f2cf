#pragma once

#include <cstddef>

namespace crossdock::device {

/// A handle of a vendor's interface, as a type of its own for each kind of object: a stream isn't taken for an event or
/// a context, nor a number for any of them. A plain value: it keeps nothing alive.
template <class Kind>
class NativeHandle {
 public:
  /// No handle, which has a meaning of its own: the host's queue, CUDA's legacy default stream, an event that is over,
  /// a device's usual context.
  constexpr NativeHandle() noexcept = default;
  /// Takes a handle of this kind; null is the same as the default.
  constexpr explicit NativeHandle(void* handle) noexcept : handle_(handle) {}
  NativeHandle(std::nullptr_t) = delete;  // say NativeQueue(), which shows that it is meant
  NativeHandle(int) = delete;             // 0 is a null pointer, too

  /// Returns the handle as the vendor's interface has it, or null.
  constexpr void* get() const noexcept { return handle_; }
  /// Returns false for no handle.
  constexpr explicit operator bool() const noexcept { return handle_ != nullptr; }
  bool operator==(const NativeHandle&) const = default;

 private:
  void* handle_ = nullptr;
};

/// A `cudaStream_t` or a `sycl::queue*`.
using NativeQueue = NativeHandle<struct QueueHandleKind>;
/// A pointer of the type that the Arrow C Device data interface defines for the device's type: `cudaEvent_t*`,
/// `sycl::event*`, ...
using NativeEvent = NativeHandle<struct EventHandleKind>;
/// A `CUcontext` or a `sycl::context*`; none for the device's usual context.
using NativeContext = NativeHandle<struct ContextHandleKind>;
/// A `sycl::device*`.
using NativeDevice = NativeHandle<struct DeviceHandleKind>;

}  // namespace crossdock::device
