#pragma once

#include "cuda_library.h"

namespace crossdock::device::cuda {

/// Makes a context the calling thread's current one while this object lives, then restores the previous one. Costs one
/// call if the context is current already. Never throws; see result().
class Current {
 public:
  Current(const CudaLibrary& library, CUcontext context) noexcept : library_(library) {
    CUcontext now = nullptr;
    result_ = library.api().ctx_get_current(&now);
    if (result_ != kSuccess || now == context) return;
    result_ = library.api().ctx_push_current(context);
    pushed_ = result_ == kSuccess;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) library_.api().ctx_pop_current(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  /// Returns kSuccess if the context is current.
  CUresult result() const noexcept { return result_; }

 private:
  const CudaLibrary& library_;
  CUresult result_;
  bool pushed_ = false;
};

}  // namespace crossdock::device::cuda
