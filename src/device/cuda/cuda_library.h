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
#include "context_table.h"
#include "core/fork.h"
#include "core/library.h"
#include "crossdock/core/error.h"
#include "cuda_exports.h"

namespace crossdock::device::cuda {

/// CUDA's driver library, opened. Every object made through it keeps it. Thread-safe.
class CudaLibrary {
 public:
  /// Opens the first of `candidates` that has all functions and is new enough. Returns null if there is none; then
  /// `tried` has a line for each.
  static std::shared_ptr<CudaLibrary> open(const std::vector<std::string>& candidates, std::vector<std::string>* tried);

  CudaLibrary(std::shared_ptr<Library> library, const Api& api, int version);

  const Api& api() const noexcept { return api_; }
  /// Returns the version, as in "CUDA 12.8".
  std::string version() const;

  /// Starts CUDA, once. Returns the result of the start. Throws ForkError in a child of the process that started CUDA.
  CUresult start();
  /// Returns true if CUDA must not be called: in a child of the process that started it.
  bool in_child() const noexcept { return guarded_.load(std::memory_order_acquire) && guard_->in_child(); }
  /// Throws ForkError in such a child.
  void check_fork() const;

  /// Returns the text of a result, as in "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string text(CUresult result) const;
  /// Returns the error for a call that failed while `doing` (as in "allocating 64 bytes on cuda:0").
  Error error(CUresult result, const std::string& doing) const;
  /// Throws that error, as the class of its code.
  [[noreturn]] void fail(CUresult result, const std::string& doing) const;
  void check(CUresult result, const char* doing) const {
    if (result != kSuccess) fail(result, doing);
  }

  /// Returns the contexts that are held here.
  ContextTable& contexts() noexcept { return contexts_; }
  const ContextTable& contexts() const noexcept { return contexts_; }
  /// Returns the exportable memory of this process.
  CudaExports& exports() noexcept { return exports_; }
  /// Returns a random token that tells this library's handles from those of other processes. start() sets it.
  const std::array<std::byte, 16>& token() const noexcept { return token_; }

 private:
  std::shared_ptr<Library> library_;
  Api api_;
  int version_;
  std::once_flag started_;
  CUresult started_with_ = kNotInitialized;
  std::optional<ForkGuard> guard_;
  std::atomic<bool> guarded_{false};  ///< guard_ is set and may be read.
  std::array<std::byte, 16> token_{};
  ContextTable contexts_;
  CudaExports exports_;
};

}  // namespace crossdock::device::cuda
