#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "crossdock/array/element_type.h"
#include "crossdock/array/extents.h"
#include "crossdock/core/export.h"
#include "crossdock/device/buffer.h"
#include "crossdock/device/device.h"
#include "crossdock/device/event.h"
#include "crossdock/device/queue.h"

namespace crossdock::array {

/// An n-dimensional array in the memory of a device: a view, the owner that keeps its memory alive, and all properties
/// that the interchange protocols carry. Copies are views of the same memory. A plain value: one thread at a time may
/// change it.
struct Tensor {
  ElementType type;
  Extents extents;
  /// Address of the first element (index 0 of every dimension) on the device; null if there is no element. For memory
  /// with handles instead of addresses (see has_addresses()), the handle.
  void* data = nullptr;
  std::uint64_t byte_offset = 0;  ///< From a handle to the first element; 0 for memory with addresses.
  device::Device device;
  device::MemoryKind kind = device::MemoryKind::kHost;
  bool read_only = false;
  std::shared_ptr<const void> owner;     ///< Keeps the memory alive, and all that `event` and `queue` need.
  device::Event event;                   ///< Work that must be over, or ordered first, before an access.
  std::optional<device::Queue> queue{};  ///< The queue of the producer's work, if it named one.
  std::shared_ptr<const Tensor> mask{};  ///< Which elements are valid, of the same shape; null if all are.

  std::int32_t ndim() const noexcept { return extents.ndim(); }
  std::span<const std::int64_t> shape() const noexcept { return extents.shape(); }
  std::span<const std::int64_t> strides() const noexcept { return extents.strides(); }  ///< Bytes; may be negative.

  CROSSDOCK_EXPORT std::int64_t size() const noexcept;    ///< Number of elements. Doesn't overflow in a checked tensor.
  CROSSDOCK_EXPORT std::int64_t nbytes() const noexcept;  ///< size() times the bytes of one element.

  /// True if the elements are in C order without gaps; dimensions of one element may have any stride. True if there is
  /// no element.
  CROSSDOCK_EXPORT bool c_contiguous() const noexcept;
  CROSSDOCK_EXPORT bool f_contiguous() const noexcept;

  /// True for host memory of any kind, and for device memory that the host may read (pinned, managed).
  CROSSDOCK_EXPORT bool host_accessible() const noexcept;
};

/// Range of the bytes of a tensor's elements, relative to the first element: from `lowest` (at most 0) to `highest`,
/// one past the last byte. Both are 0 if there is no element.
struct ByteRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};
/// Returns the range of the elements' bytes. Throws InvalidDataError, whose text begins with `where`, for a negative
/// extent, and if sizes or strides overflow 63 bits.
CROSSDOCK_EXPORT ByteRange byte_range(const Tensor& tensor, const char* where);

/// Sets strides of C order. Throws InvalidDataError as byte_range().
CROSSDOCK_EXPORT void set_row_major(Tensor* tensor, const char* where);

/// Makes the checks at the end of every import: the extents are valid (byte_range()); there is a pointer if there are
/// elements; the pointer fits, for host memory. Sets the pointer to null if there are no elements. Throws
/// InvalidDataError.
CROSSDOCK_EXPORT void check_tensor(Tensor* tensor, const char* where);

/// True if a device type's memory has addresses, to which offsets may be added: all types but those of OpenCL, Vulkan,
/// Metal and WebGPU, and unknown types.
CROSSDOCK_EXPORT bool has_addresses(device::DeviceType type) noexcept;

/// Returns the kind of memory that a device type alone implies: pinned and managed memory of CUDA and ROCm have device
/// types of their own.
CROSSDOCK_EXPORT device::MemoryKind kind_of(device::DeviceType type) noexcept;

/// True if the host may read memory of this device type once the work on it is over, managed memory included.
CROSSDOCK_EXPORT bool host_reaches(device::DeviceType type) noexcept;

/// One dimension of a slice: `count` elements from `start`, `step` apart. The same numbers as from Python's
/// slice.indices().
struct Slice {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
  bool keep = true;  ///< False for an index: the dimension is dropped (`count` is 1).
};
/// Returns a view of a part: one Slice per leading dimension; other dimensions stay whole. The mask is sliced, too.
/// Throws InvalidArgumentError for more slices than dimensions, and for elements outside the tensor.
CROSSDOCK_EXPORT Tensor slice(const Tensor& tensor, std::span<const Slice> slices);
/// Returns a view with the dimensions in the order of `axes`, a permutation; the mask too. Throws InvalidArgumentError.
CROSSDOCK_EXPORT Tensor transpose(const Tensor& tensor, std::span<const std::int32_t> axes);

/// Returns the text of a shape, as in "(3, 4)", "(5,)", "()".
CROSSDOCK_EXPORT std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace crossdock::array
