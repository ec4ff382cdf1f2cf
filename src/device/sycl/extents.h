#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace crossdock::device::sycl {

/// Where the memory that we allocated starts and ends: SYCL doesn't tell. Thread-safe.
class Extents {
 public:
  struct Extent {
    const void* base = nullptr;
    std::uint64_t size = 0;
  };

  void add(const void* base, std::uint64_t size);
  void remove(const void* base) noexcept;
  /// The allocation that an address lies in.
  std::optional<Extent> find(const void* pointer) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::uint64_t> sizes_;
};

}  // namespace crossdock::device::sycl
