#include "memory_pool.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace crossdock::device::cuda {

namespace {

constexpr std::size_t kPartOfTheDevice = 16;

/// Returns the bytes of free memory that a pool keeps.
std::uint64_t bytes_to_keep(const Api& api, CUdevice device) noexcept {
  if (const char* const chosen = std::getenv("CROSSDOCK_CUDA_POOL_BYTES")) {
    std::uint64_t bytes = 0;
    const char* const end = chosen + std::strlen(chosen);
    if (const auto [last, error] = std::from_chars(chosen, end, bytes); error == std::errc() && last == end) {
      return bytes;
    }
  }
  std::size_t total = 0;
  return api.device_total_mem(&total, device) == kSuccess ? total / kPartOfTheDevice : 0;
}

}  // namespace

void MemoryPool::make() noexcept {
  const Api& api = library_.api();
  CUmemPoolProps properties{};
  properties.alloc_type = kAllocationPinned;
  properties.location = {.type = kLocationDevice, .id = device_};
  CUmemoryPool made = nullptr;
  if (api.mem_pool_create(&made, &properties) != kSuccess) return;
  std::uint64_t keep = bytes_to_keep(api, device_);
  if (api.mem_pool_set_attribute(made, kPoolReleaseThreshold, &keep) != kSuccess) {
    api.mem_pool_destroy(made);
    return;
  }
  pool_.store(made, std::memory_order_release);
}

CUresult MemoryPool::allocate(CUdeviceptr* pointer, std::size_t size, CUstream stream) noexcept {
  std::call_once(made_, [this] { make(); });
  const Api& api = library_.api();
  const CUmemoryPool pool = pool_.load(std::memory_order_relaxed);
  return pool != nullptr ? api.mem_alloc_from_pool_async(pointer, size, pool, stream)
                         : api.mem_alloc_async(pointer, size, stream);
}

bool MemoryPool::trim() noexcept {
  const CUmemoryPool pool = pool_.load(std::memory_order_acquire);
  if (pool == nullptr) return false;
  const Api& api = library_.api();
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  return api.mem_pool_get_attribute(pool, kPoolReserved, &before) == kSuccess && before != 0 &&
         api.mem_pool_trim_to(pool, 0) == kSuccess &&
         api.mem_pool_get_attribute(pool, kPoolReserved, &after) == kSuccess && after < before;
}

void MemoryPool::destroy() noexcept {
  if (const CUmemoryPool pool = pool_.load(std::memory_order_acquire)) library_.api().mem_pool_destroy(pool);
}

}  // namespace crossdock::device::cuda
