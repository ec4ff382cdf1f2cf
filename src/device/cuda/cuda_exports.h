#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "api.h"

namespace crossdock::device::cuda {

/// One exportable allocation.
struct CudaExport {
  CUdeviceptr base = 0;
  std::uint64_t size = 0;  ///< The requested size.
  int ordinal = 0;
  std::weak_ptr<void> memory;
  std::optional<CUipcMemHandle> handle;  ///< Set once the memory was exported.
};

/// Exportable allocations by address. It outlives them: they remove themselves when they are freed. Thread-safe.
class CudaExports {
 public:
  void add(const CudaExport& memory);
  void remove(CUdeviceptr base) noexcept;
  /// Returns the allocation that these bytes lie in.
  std::optional<CudaExport> find(CUdeviceptr pointer, std::uint64_t size) const;
  /// Notes the handle that CUDA gave for the allocation.
  void exported(CUdeviceptr base, const CUipcMemHandle& handle);
  /// Returns the allocation that was exported by this handle.
  std::optional<CudaExport> find(const CUipcMemHandle& handle) const;

 private:
  mutable std::mutex mutex_;
  std::map<CUdeviceptr, CudaExport> by_base_;
};

}  // namespace crossdock::device::cuda
