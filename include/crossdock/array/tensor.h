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

/// An n-dimensional array in the memory of some device: a view, the owner that keeps its memory alive, and everything
/// that the interchange protocols say of it. Copies are views of the same memory. A plain value: one thread changes it
/// at a time.
struct Tensor {
  ElementType type;
  Extents extents;
  /// The first element (index 0 of every dimension), as the device addresses it; null if there is no element. On
  /// devices whose memory has handles instead of addresses (see has_addresses()) the handle.
  void* data = nullptr;
  std::uint64_t byte_offset = 0;  ///< From a handle to the first element; 0 where memory has addresses.
  device::Device device;
  device::MemoryKind kind = device::MemoryKind::kHost;
  bool read_only = false;
  std::shared_ptr<const void> owner;     ///< Keeps the memory, and all that `event` and `queue` need.
  device::Event event;                   ///< Work that must be done, or be ordered before, what touches the memory.
  std::optional<device::Queue> queue{};  ///< The queue that its producer's work is on, if it named one.
  std::shared_ptr<const Tensor> mask{};  ///< Of the same shape: which elements are valid; null if all are.

  std::int32_t ndim() const noexcept { return extents.ndim(); }
  std::span<const std::int64_t> shape() const noexcept { return extents.shape(); }
  std::span<const std::int64_t> strides() const noexcept { return extents.strides(); }  ///< Bytes; may be negative.

  CROSSDOCK_EXPORT std::int64_t size() const noexcept;    ///< Elements. Doesn't overflow in a checked tensor.
  CROSSDOCK_EXPORT std::int64_t nbytes() const noexcept;  ///< size() times the bytes of one.

  /// In C order without gaps; dimensions of one element may have any stride. True if there is no element.
  CROSSDOCK_EXPORT bool c_contiguous() const noexcept;
  CROSSDOCK_EXPORT bool f_contiguous() const noexcept;

  /// Host memory of any kind, also that of a device which the host may read (pinned, managed).
  CROSSDOCK_EXPORT bool host_accessible() const noexcept;
};

/// Bytes around the first element that a tensor's elements lie in: from `lowest` (at most 0) to `highest`, one past the
/// last byte. Both 0 if there is no element.
struct ByteRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};
/// Throws InvalidDataError, beginning with `where`, for a negative extent, and where sizes or strides overflow 63 bits.
CROSSDOCK_EXPORT ByteRange byte_range(const Tensor& tensor, const char* where);

/// Sets strides of C order. Throws InvalidDataError as byte_range().
CROSSDOCK_EXPORT void set_row_major(Tensor* tensor, const char* where);

/// What every import ends with: extents that make sense (byte_range()), a pointer where there are elements and none
/// where there are none (it is set to null), and for host memory one that fits. Throws InvalidDataError.
CROSSDOCK_EXPORT void check_tensor(Tensor* tensor, const char* where);

/// True where a device's memory has addresses, to which offsets may be added: all but OpenCL buffers, Vulkan, Metal and
/// WebGPU ones, and types without a name.
CROSSDOCK_EXPORT bool has_addresses(device::DeviceType type) noexcept;

/// The kind of memory that a device type without more says: pinned and managed memory of CUDA and ROCm have types of
/// their own.
CROSSDOCK_EXPORT device::MemoryKind kind_of(device::DeviceType type) noexcept;

/// True where the host may read the memory once the work on it is done, managed memory included.
CROSSDOCK_EXPORT bool host_reaches(device::DeviceType type) noexcept;

/// One dimension of a slice: `count` elements from `start`, `step` apart. As Python's slice.indices() gives them.
struct Slice {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
  bool keep = true;  ///< False: an index; the dimension goes (`count` is 1).
};
/// A view: one Slice per leading dimension; the rest stay whole. The mask is sliced along. Throws InvalidArgumentError
/// for more slices than dimensions, and for elements outside.
CROSSDOCK_EXPORT Tensor slice(const Tensor& tensor, std::span<const Slice> slices);
/// A view with dimensions in the order of `axes`, a permutation; the mask too. Throws InvalidArgumentError.
CROSSDOCK_EXPORT Tensor transpose(const Tensor& tensor, std::span<const std::int32_t> axes);

/// "(3, 4)", "(5,)", "()".
CROSSDOCK_EXPORT std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace crossdock::array
