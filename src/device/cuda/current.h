#pragma once

#include "context_hold.h"
#include "cuda_library.h"

namespace crossdock::device::cuda {

/// Makes a context the calling thread's current one while this object lives, then restores the previous one. Costs one
/// call if the context is current already, and one more for a held context of other code. Never throws; see result().
class Current {
 public:
  Current(const CudaLibrary& library, CUcontext context) noexcept : library_(library) { enter(context); }
  /// Fails with kContextIsDestroyed if the context isn't alive.
  explicit Current(const ContextHold& hold) noexcept : library_(hold.library()) {
    if (hold.alive()) enter(hold.native());
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
  void enter(CUcontext context) noexcept {
    CUcontext now = nullptr;
    result_ = library_.api().ctx_get_current(&now);
    if (result_ != kSuccess || now == context) return;
    result_ = library_.api().ctx_push_current(context);
    pushed_ = result_ == kSuccess;
  }
  const CudaLibrary& library_;
  CUresult result_ = kContextIsDestroyed;
  bool pushed_ = false;
};

}  // namespace crossdock::device::cuda
