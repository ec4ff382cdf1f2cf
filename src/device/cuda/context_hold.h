#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "crossdock/device/driver.h"
#include "cuda_library.h"
#include "memory_pool.h"

namespace crossdock::device::cuda {

/// A CUDA context, usable as long as this object is held and, for a context of other code, alive(). Contexts, buffers,
/// queues and events hold one. Thread-safe.
class ContextHold {
 public:
  /// Retains the device's primary context until the last holder is gone. Throws like CudaLibrary::check().
  static std::shared_ptr<ContextHold> primary(const std::shared_ptr<CudaLibrary>& library, int ordinal);
  /// Holds a context of other code, which should outlive this; if it is the primary one, as primary(). Throws
  /// InvalidArgumentError if it is of another device.
  static std::shared_ptr<ContextHold> foreign(const std::shared_ptr<CudaLibrary>& library, int ordinal,
                                              CUcontext context);
  /// Returns the device of a context, and its handle unless it is the device's primary one; nothing if CUDA doesn't
  /// know it. Opens nothing.
  static std::optional<DeviceContext> name_of(const CudaLibrary& library, CUcontext context);

  /// Used by the two functions above: makes an object without a context yet.
  ContextHold(std::shared_ptr<CudaLibrary> library, int ordinal, CUdevice device);
  ~ContextHold();
  ContextHold(const ContextHold&) = delete;
  ContextHold& operator=(const ContextHold&) = delete;

  CudaLibrary& library() const noexcept { return *library_; }
  const std::shared_ptr<CudaLibrary>& shared_library() const noexcept { return library_; }
  const Api& api() const noexcept { return library_->api(); }
  CUcontext native() const noexcept { return context_; }
  /// Returns the context if it isn't the device's primary one, else null.
  CUcontext native_unless_primary() const noexcept { return retained_ ? nullptr : context_; }
  /// Returns false if the library that the context belongs to has destroyed it. Another context may have its handle
  /// then. Drivers before CUDA 12.0 tell such a context apart only if it is of another device.
  bool alive() const noexcept;
  CUdevice cu_device() const noexcept { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  bool has_pools() const noexcept { return has_pools_; }
  bool has_managed() const noexcept { return has_managed_; }
  /// Returns the same for a device that isn't open.
  static bool has_managed(const CudaLibrary& library, CUdevice device) noexcept;

  /// Returns a stream of our own, in whose order memory is freed that was dropped without a queue. No other work runs
  /// on it, so no other work waits. Returns null if CUDA can't make one. The context must be current.
  CUstream reclaiming() noexcept;
  /// Returns the pool of the memory that is allocated in this context. Unused if has_pools() is false.
  MemoryPool& pool() noexcept { return pool_; }

 private:
  std::shared_ptr<CudaLibrary> library_;
  int ordinal_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  std::uint64_t id_ = 0;  ///< Of a context of other code: CUDA gives no id twice. Unset if it gives none.
  bool retained_ = false;
  bool has_pools_ = false;
  bool has_managed_ = false;
  std::mutex mutex_;
  CUstream reclaiming_ = nullptr;
  MemoryPool pool_;
};

}  // namespace crossdock::device::cuda
