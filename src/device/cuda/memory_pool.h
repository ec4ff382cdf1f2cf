#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "cuda_library.h"

namespace crossdock::device::cuda {

/// A pool of CUDA's for stream-ordered memory of one device, for this library alone: the device's default pool, which
/// all libraries of a process share, is left as it is.
///
/// The default pool returns all free memory to the system at each synchronization, so that a loop of allocating,
/// copying and waiting maps new memory each time. This pool keeps up to a sixteenth of the device's memory; the
/// environment variable CROSSDOCK_CUDA_POOL_BYTES sets another number of bytes. It is made at the first allocation.
/// Thread-safe.
class MemoryPool {
 public:
  MemoryPool(const CudaLibrary& library, CUdevice device) noexcept : library_(library), device_(device) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Allocates memory in a stream's order. Uses the default pool if this one can't be made. The stream's context must
  /// be current.
  CUresult allocate(CUdeviceptr* pointer, std::size_t size, CUstream stream) noexcept;
  /// Returns free memory to the system, as far as no work is pending on it. Returns true if there was some.
  bool trim() noexcept;
  /// Destroys the pool. CUDA keeps it until the last memory from it is free. Call it once, and nothing after it.
  void destroy() noexcept;

 private:
  void make() noexcept;

  const CudaLibrary& library_;
  CUdevice device_;
  std::once_flag made_;
  std::atomic<CUmemoryPool> pool_{nullptr};  ///< Null before make(), and if that failed.
};

}  // namespace crossdock::device::cuda
