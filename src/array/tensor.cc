#include "crossdock/array/tensor.h"

#include <algorithm>
#include <limits>

#include "core/bytes.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

[[noreturn]] void fail_overflow(const char* where, const Tensor& tensor) {
  throw InvalidDataError(std::string(where) + ": an array of shape " + shape_text(tensor.shape()) +
                         " with these strides exceeds the address space");
}

[[noreturn]] void fail_negative(const char* where, const Tensor& tensor) {
  throw InvalidDataError(std::string(where) + ": the shape " + shape_text(tensor.shape()) + " has a negative extent");
}

bool contiguous(const Tensor& tensor, bool row_major) noexcept {
  const auto shape = tensor.shape();
  const auto strides = tensor.strides();
  std::int64_t expected = tensor.type.itemsize();
  bool fits = true;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t d = row_major ? shape.size() - 1 - i : i;
    if (shape[d] == 0) return true;
    if (shape[d] != 1 && strides[d] != expected) fits = false;
    expected *= shape[d];
  }
  return fits;
}

}  // namespace

std::int64_t Tensor::size() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape()) count *= extent;
  return count;
}

std::int64_t Tensor::nbytes() const noexcept { return size() * type.itemsize(); }

bool Tensor::c_contiguous() const noexcept { return contiguous(*this, true); }
bool Tensor::f_contiguous() const noexcept { return contiguous(*this, false); }

ByteRange byte_range(const Tensor& tensor, const char* where) {
  const auto shape = tensor.shape();
  const auto strides = tensor.strides();
  ByteRange range{.lowest = 0, .highest = tensor.type.itemsize()};
  std::int64_t bytes = std::max<std::int64_t>(tensor.type.itemsize(), 1);
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) fail_negative(where, tensor);
    if (extent == 0) empty = true;
  }
  // Also checks arrays without elements, because products of some of the extents are needed (elements of a row), in any
  // order.
  for (const std::int64_t extent : shape) {
    if (extent != 0 && !checked_multiply(bytes, extent, &bytes)) fail_overflow(where, tensor);
  }
  if (empty) return {};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t reach = 0;
    if (!checked_multiply(shape[d] - 1, strides[d], &reach) ||
        !checked_add(reach < 0 ? range.lowest : range.highest, reach, reach < 0 ? &range.lowest : &range.highest)) {
      fail_overflow(where, tensor);
    }
  }
  // The distance between lowest and highest must not overflow, either.
  std::int64_t distance = 0;
  if (range.lowest == std::numeric_limits<std::int64_t>::min() ||
      !checked_add(range.highest, -range.lowest, &distance)) {
    fail_overflow(where, tensor);
  }
  return range;
}

void set_row_major(Tensor* tensor, const char* where) {
  const auto shape = tensor->shape();
  const auto strides = tensor->extents.strides();
  std::int64_t next = tensor->type.itemsize();
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] < 0) fail_negative(where, *tensor);
    strides[d] = next;
    // An extent of 0 doesn't change the next stride; there is no element to reach.
    if (shape[d] > 1 && !checked_multiply(next, shape[d], &next)) fail_overflow(where, *tensor);
  }
}

void Tensor::advance(std::int64_t bytes) noexcept {
  if (device::has_addresses(device.type)) {
    data = moved_by(data, bytes);
  } else {
    byte_offset += static_cast<std::uint64_t>(bytes);
  }
}

void check_tensor(Tensor* tensor, const char* where) {
  const ByteRange range = byte_range(*tensor, where);
  if (range.highest == range.lowest) {
    tensor->data = nullptr;
    tensor->byte_offset = 0;
    return;
  }
  if (tensor->data == nullptr) {
    throw InvalidDataError(std::string(where) + ": a null pointer to an array of shape " + shape_text(tensor->shape()));
  }
  if (!device::has_addresses(tensor->device.type)) return;
  const auto address = reinterpret_cast<std::uintptr_t>(tensor->data);
  if (static_cast<std::uintptr_t>(-range.lowest) > address ||
      static_cast<std::uintptr_t>(range.highest) > UINTPTR_MAX - address) {
    throw InvalidDataError(std::string(where) + ": an array of shape " + shape_text(tensor->shape()) +
                           " reaches beyond the end of the address space");
  }
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(shape[d]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

Tensor slice(const Tensor& tensor, std::span<const Slice> slices) {
  const auto shape = tensor.shape();
  const auto strides = tensor.strides();
  if (slices.size() > shape.size()) {
    throw InvalidArgumentError("too many indices: " + std::to_string(slices.size()) + " for an array of " +
                               std::to_string(shape.size()) + " dimensions");
  }
  std::int32_t kept = static_cast<std::int32_t>(shape.size() - slices.size());
  for (const Slice& one : slices) kept += one.keep ? 1 : 0;
  Tensor view = tensor;
  view.extents = Extents(kept);
  std::int64_t offset = 0;
  std::size_t next = 0;
  bool empty = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Slice one = d < slices.size() ? slices[d] : Slice{.start = 0, .step = 1, .count = shape[d], .keep = true};
    std::int64_t last = 0;
    const bool fits = one.count >= 0 && one.step != 0 &&
                      (one.count == 0 ||
                       (one.start >= 0 && one.start < shape[d] && checked_multiply(one.count - 1, one.step, &last) &&
                        checked_add(last, one.start, &last) && last >= 0 && last < shape[d]));
    if (!fits) {
      throw InvalidArgumentError("index " + std::to_string(one.start) + " is out of bounds for dimension " +
                                 std::to_string(d) + " of size " + std::to_string(shape[d]));
    }
    // A checked tensor's elements span at most 63 bits of bytes, so these products don't overflow.
    if (one.count > 0) offset += one.start * strides[d];
    if (one.count == 0) empty = true;
    if (!one.keep) continue;
    view.extents.shape()[next] = one.count;
    // The stride of a single element has no meaning, and could overflow.
    view.extents.strides()[next] = one.count > 1 ? strides[d] * one.step : strides[d];
    ++next;
  }
  if (empty || tensor.data == nullptr) {
    view.data = nullptr;
    view.byte_offset = 0;
  } else {
    view.advance(offset);
  }
  if (tensor.mask) view.mask = std::make_shared<const Tensor>(slice(*tensor.mask, slices));
  return view;
}

Tensor transpose(const Tensor& tensor, std::span<const std::int32_t> axes) {
  const auto ndim = static_cast<std::size_t>(tensor.ndim());
  std::uint64_t seen = 0;
  bool permutation = axes.size() == ndim;
  for (const std::int32_t axis : axes) {
    if (axis < 0 || axis >= tensor.ndim() || (seen >> axis & 1) != 0) {
      permutation = false;
      break;
    }
    seen |= std::uint64_t{1} << axis;
  }
  if (!permutation) {
    throw InvalidArgumentError("axes must name each of the " + std::to_string(ndim) + " dimensions once");
  }
  Tensor view = tensor;
  for (std::size_t d = 0; d < ndim; ++d) {
    view.extents.shape()[d] = tensor.shape()[static_cast<std::size_t>(axes[d])];
    view.extents.strides()[d] = tensor.strides()[static_cast<std::size_t>(axes[d])];
  }
  if (tensor.mask) view.mask = std::make_shared<const Tensor>(transpose(*tensor.mask, axes));
  return view;
}

}  // namespace crossdock::array
