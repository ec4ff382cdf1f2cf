#include "extents.h"

#include <bit>
#include <iterator>

namespace crossdock::device::sycl {

namespace {

std::uintptr_t number(const void* pointer) noexcept { return std::bit_cast<std::uintptr_t>(pointer); }

}  // namespace

void Extents::add(const void* base, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  sizes_[number(base)] = size;
}

void Extents::remove(const void* base) noexcept {
  const std::lock_guard lock(mutex_);
  sizes_.erase(number(base));
}

std::optional<Extents::Extent> Extents::find(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  const auto after = sizes_.upper_bound(number(pointer));
  if (after == sizes_.begin()) return std::nullopt;
  const auto& [base, size] = *std::prev(after);
  if (number(pointer) - base >= size) return std::nullopt;
  return Extent{.base = std::bit_cast<const void*>(base), .size = size};
}

}  // namespace crossdock::device::sycl
