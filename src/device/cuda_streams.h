#pragma once

#include <cstdint>

/// Handles by which CUDA names a stream of the current device, whichever that is (CUDA's driver API, "Stream
/// synchronization behavior"). For layers that read such handles in protocols, with or without a driver. Null is the
/// legacy stream too.
namespace crossdock::device {

inline constexpr std::uintptr_t kCudaLegacyStream = 1;     ///< Synchronizes with all blocking streams.
inline constexpr std::uintptr_t kCudaPerThreadStream = 2;  ///< The calling thread's own stream.

/// Returns true for a handle by which each device has a stream.
inline bool is_default_cuda_stream(const void* native) noexcept {
  return reinterpret_cast<std::uintptr_t>(native) <= kCudaPerThreadStream;
}

}  // namespace crossdock::device
