#include "extents.h"

#include <cstddef>
#include <functional>
#include <iterator>

namespace crossdock::device::sycl {

void Extents::add(const void* base, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  sizes_[base] = size;
}

void Extents::remove(const void* base) noexcept {
  const std::lock_guard lock(mutex_);
  sizes_.erase(base);
}

std::optional<Extents::Extent> Extents::find(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  const auto after = sizes_.upper_bound(pointer);
  if (after == sizes_.begin()) return std::nullopt;
  const auto& [base, size] = *std::prev(after);
  const void* const end = static_cast<const std::byte*>(base) + size;
  if (!std::less<const void*>()(pointer, end)) return std::nullopt;
  return Extent{.base = base, .size = size};
}

}  // namespace crossdock::device::sycl
