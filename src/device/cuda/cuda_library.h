#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api.h"
#include "crossdock/core/error.h"
#include "crossdock/core/fork.h"
#include "crossdock/core/library.h"
#include "cuda_exports.h"

namespace crossdock::device::cuda {

/// CUDA's driver library, opened. Everything made through it keeps it. Thread-safe.
class CudaLibrary {
 public:
  /// Of `candidates`, the first that has all functions and is new enough; null if none, and a line for each in `tried`.
  static std::shared_ptr<CudaLibrary> open(const std::vector<std::string>& candidates, std::vector<std::string>* tried);

  CudaLibrary(std::shared_ptr<Library> library, const Api& api, int version);

  const Api& api() const noexcept { return api_; }
  /// As in "CUDA 12.8".
  std::string version() const;

  /// Starts CUDA, once; what came of it. Throws ForkError in a child of the process that did.
  CUresult start();
  /// True where CUDA must not be called: in a child of the process that started it.
  bool in_child() const noexcept { return guarded_.load(std::memory_order_acquire) && guard_->in_child(); }
  /// Throws ForkError in such a child.
  void check_fork() const;

  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string text(CUresult result) const;
  /// The error for a call that failed while `doing` ("allocating 64 bytes on cuda:0").
  Error error(CUresult result, const std::string& doing) const;
  /// Throws it, as the class of its code.
  [[noreturn]] void fail(CUresult result, const std::string& doing) const;
  void check(CUresult result, const char* doing) const {
    if (result != kSuccess) fail(result, doing);
  }

  /// Exportable memory of this process.
  CudaExports& exports() noexcept { return exports_; }
  /// Tells this library's handles from those of other processes. Random. Throws as start().
  const std::array<std::byte, 16>& token() const noexcept { return token_; }

 private:
  std::shared_ptr<Library> library_;
  Api api_;
  int version_;
  std::once_flag started_;
  CUresult started_with_ = kNotInitialized;
  std::optional<ForkGuard> guard_;
  std::atomic<bool> guarded_{false};  ///< guard_ is there to be read.
  std::array<std::byte, 16> token_{};
  CudaExports exports_;
};

}  // namespace crossdock::device::cuda
