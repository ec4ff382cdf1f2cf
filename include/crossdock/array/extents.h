#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace crossdock::array {

/// Maximum number of dimensions of a tensor, the same as NumPy's.
inline constexpr std::int32_t kMaxTensorDimensions = 64;

/// A tensor's shape, and its strides in bytes. Up to 8 dimensions are stored in the object itself, so that a hand-over
/// of a tensor allocates nothing for them. A plain value: two arrays of equal length.
class Extents {
 public:
  static constexpr std::int32_t kInline = 8;

  Extents() noexcept = default;
  /// Makes extents of `ndim` dimensions, 0 to kMaxTensorDimensions, and doesn't set their values.
  explicit Extents(std::int32_t ndim) : ndim_(ndim) {
    if (ndim > kInline) [[unlikely]]
      heap_ = std::make_unique<std::int64_t[]>(2 * static_cast<std::size_t>(ndim));
  }
  Extents(const Extents& other) : Extents(other.ndim_) { copy(other); }
  Extents(Extents&& other) noexcept : ndim_(other.ndim_), heap_(std::move(other.heap_)) {
    if (heap_ == nullptr) copy(other);
    other.ndim_ = 0;
  }
  Extents& operator=(const Extents& other) {
    if (this != &other) *this = Extents(other);
    return *this;
  }
  Extents& operator=(Extents&& other) noexcept {
    if (this == &other) return *this;
    ndim_ = other.ndim_;
    heap_ = std::move(other.heap_);
    if (heap_ == nullptr) copy(other);
    other.ndim_ = 0;
    return *this;
  }
  ~Extents() = default;

  std::int32_t ndim() const noexcept { return ndim_; }
  std::span<std::int64_t> shape() noexcept { return {first(), size()}; }
  std::span<const std::int64_t> shape() const noexcept { return {first(), size()}; }
  std::span<std::int64_t> strides() noexcept { return {first() + size(), size()}; }
  std::span<const std::int64_t> strides() const noexcept { return {first() + size(), size()}; }

 private:
  std::size_t size() const noexcept { return static_cast<std::size_t>(ndim_); }
  std::int64_t* first() noexcept { return heap_ ? heap_.get() : inline_; }
  const std::int64_t* first() const noexcept { return heap_ ? heap_.get() : inline_; }
  void copy(const Extents& other) noexcept { std::memcpy(first(), other.first(), 2 * size() * sizeof(std::int64_t)); }

  std::int32_t ndim_ = 0;
  std::int64_t inline_[2 * kInline];
  std::unique_ptr<std::int64_t[]> heap_;
};

}  // namespace crossdock::array
