#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace crossdock::device::sycl {

/// The start and size of each piece of memory that we allocated, since SYCL doesn't tell them. Thread-safe.
class Extents {
 public:
  struct Extent {
    const void* base = nullptr;
    std::uint64_t size = 0;
  };

  void add(const void* base, std::uint64_t size);
  void remove(const void* base) noexcept;
  /// Returns the allocation that an address lies in.
  std::optional<Extent> find(const void* pointer) const;

 private:
  mutable std::mutex mutex_;
  std::map<const void*, std::uint64_t> sizes_;
};

}  // namespace crossdock::device::sycl
