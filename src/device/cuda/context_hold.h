#pragma once

#include <memory>
#include <mutex>

#include "cuda_library.h"

namespace crossdock::device::cuda {

/// A CUDA context, kept usable for whoever holds this: contexts, buffers, queues and events do. Thread-safe.
class ContextHold {
 public:
  /// The device's primary context, retained until the last holder goes. Throws as CudaLibrary::check().
  static std::shared_ptr<ContextHold> primary(const std::shared_ptr<CudaLibrary>& library, int ordinal);
  /// Somebody else's context, which outlives this. Throws InvalidArgumentError if it is of another device.
  static std::shared_ptr<ContextHold> foreign(const std::shared_ptr<CudaLibrary>& library, int ordinal,
                                              CUcontext context);

  /// For the two above: as yet of no context.
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
  /// The same of a device that isn't open.
  static bool has_managed(const CudaLibrary& library, CUdevice device) noexcept;

  /// A stream of our own in whose order memory is freed that was dropped plainly: nothing else runs on it, so
  /// nobody waits. Null if CUDA refuses to make one. For who has the context current.
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
