#include "cuda_exports.h"

#include <cstring>
#include <iterator>

namespace crossdock::device::cuda {

void CudaExports::add(const CudaExport& memory) {
  const std::lock_guard lock(mutex_);
  by_base_[memory.base] = memory;
}

void CudaExports::remove(CUdeviceptr base) noexcept {
  const std::lock_guard lock(mutex_);
  by_base_.erase(base);
}

std::optional<CudaExport> CudaExports::find(CUdeviceptr pointer, std::uint64_t size) const {
  const std::lock_guard lock(mutex_);
  auto after = by_base_.upper_bound(pointer);
  if (after == by_base_.begin()) return std::nullopt;
  const CudaExport& found = std::prev(after)->second;
  const std::uint64_t offset = pointer - found.base;
  if (offset > found.size || size > found.size - offset) return std::nullopt;
  return found;
}

void CudaExports::exported(CUdeviceptr base, const CUipcMemHandle& handle) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_base_.find(base); found != by_base_.end()) found->second.handle = handle;
}

std::optional<CudaExport> CudaExports::find(const CUipcMemHandle& handle) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [base, memory] : by_base_) {
    if (memory.handle && std::memcmp(memory.handle->reserved, handle.reserved, sizeof handle.reserved) == 0) {
      return memory;
    }
  }
  return std::nullopt;
}

}  // namespace crossdock::device::cuda
