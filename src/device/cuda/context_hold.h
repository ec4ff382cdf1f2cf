#pragma once

#include <memory>
#include <mutex>

#include "cuda_library.h"

namespace crossdock::device::cuda {

/// A CUDA context, usable as long as this object is held. Contexts, buffers, queues and events hold one. Thread-safe.
class ContextHold {
 public:
  /// Retains the device's primary context until the last holder is gone. Throws like CudaLibrary::check().
  static std::shared_ptr<ContextHold> primary(const std::shared_ptr<CudaLibrary>& library, int ordinal);
  /// Holds a context of other code, which outlives this. Throws InvalidArgumentError if it is of another device.
  static std::shared_ptr<ContextHold> foreign(const std::shared_ptr<CudaLibrary>& library, int ordinal,
                                              CUcontext context);

  /// Used by the two functions above: makes an object without a context yet.
  ContextHold(std::shared_ptr<CudaLibrary> library, int ordinal, CUdevice device);
  ~ContextHold();
  ContextHold(const ContextHold&) = delete;
  ContextHold& operator=(const ContextHold&) = delete;

  CudaLibrary& library() const noexcept { return *library_; }
  const std::shared_ptr<CudaLibrary>& shared_library() const noexcept { return library_; }
  const Api& api() const noexcept { return library_->api(); }
  CUcontext native() const noexcept { return context_; }
  CUdevice cu_device() const noexcept { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  bool has_pools() const noexcept { return has_pools_; }
  bool has_managed() const noexcept { return has_managed_; }
  /// Returns the same for a device that isn't open.
  static bool has_managed(const CudaLibrary& library, CUdevice device) noexcept;

  /// Returns a stream of our own, in whose order memory is freed that was dropped without a queue. No other work runs
  /// on it, so no other work waits. Returns null if CUDA can't make one. The context must be current.
  CUstream reclaiming() noexcept;

 private:
  std::shared_ptr<CudaLibrary> library_;
  int ordinal_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  bool retained_ = false;
  bool has_pools_ = false;
  bool has_managed_ = false;
  std::mutex mutex_;
  CUstream reclaiming_ = nullptr;
};

}  // namespace crossdock::device::cuda
