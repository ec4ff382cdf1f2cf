#pragma once

#include <cstdint>

#include "crossdock/array/dlpack_abi.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"

/// DLPack, versions 0.x (legacy) to 1.3.
///
/// DLPack carries no event: the producer orders the consumer's queue after its work. An imported tensor therefore
/// counts as ready, because the caller has ordered its queue as the protocol says. A tensor must be ready before
/// export: see sync.h.
namespace crossdock::exchange {

/// Returns a view of memory that another library owns; keeps nothing alive. Strides may be null (C order). `flags` are
/// those of DLManagedTensorVersioned. Reads no element, neither in host memory nor on a device. Throws InvalidDataError
/// for invalid extents or pointers, UnsupportedTypeError for packed elements smaller than a byte.
CROSSDOCK_EXPORT array::Tensor view_dlpack(const DLTensor& tensor, std::uint64_t flags);
/// Returns the element type that `dtype` describes. `flags` and errors are as in view_dlpack().
CROSSDOCK_EXPORT array::ElementType element_type_of(const DLDataType& dtype, std::uint64_t flags);
/// Fills `*out`. `shape` and `strides` have room for `tensor.ndim()` numbers each; they may be null if there are no
/// dimensions. `out->data` is the lowest address of all elements, and `byte_offset` the distance from there to the
/// first element, which isn't 0 if strides are negative. The tensor must have passed check_dlpack().
CROSSDOCK_EXPORT void describe_dlpack(const array::Tensor& tensor, std::int64_t* shape, std::int64_t* strides,
                                      DLTensor* out) noexcept;

/// Takes ownership of `*managed`. On success the tensor's owner calls the deleter, on the thread that drops the last
/// owner. On a throw the caller still owns it. Throws as view_dlpack(), InvalidArgumentError for a null struct, and
/// UnsupportedTypeError for a major version other than 1.
CROSSDOCK_EXPORT array::Tensor import_dlpack(DLManagedTensorVersioned* managed);
/// The same for the legacy struct. It can't say that memory is read-only, so the tensor is writable.
CROSSDOCK_EXPORT array::Tensor import_dlpack(DLManagedTensor* managed);

/// Checks that DLPack can describe the tensor.
///
/// Throws ExportError for elements that are byte-swapped or described (structured, text, dates), for strides that
/// aren't a multiple of the element size, for device ids beyond 31 bits, and with `legacy` for read-only memory. The
/// text of the error names the cause and says what to do. Throws UnsupportedError if the tensor has a mask. Throws
/// InvalidArgumentError if its event may not be complete: call order_on() or wait_ready() first.
CROSSDOCK_EXPORT void check_dlpack(const array::Tensor& tensor, bool legacy);

/// Returns the device as DLPack numbers it: the CPU, pinned and managed memory are device 0, whatever id they had.
CROSSDOCK_EXPORT device::Device dlpack_device(const device::Device& device) noexcept;

/// Exports a view of the tensor. The memory lives until the deleter is called, once, on any thread.
///
/// Makes one allocation, whatever the number of dimensions. Sets the flags read-only and padded as the tensor says, and
/// `copied` if the caller made this memory for the hand-over and shares it with no other holder. The version is 1.3.
/// Strides are null only if there are no dimensions, and the pointer is null if there are no elements. Throws as
/// check_dlpack().
CROSSDOCK_EXPORT DLManagedTensorVersioned* export_dlpack(const array::Tensor& tensor, bool copied = false);
CROSSDOCK_EXPORT DLManagedTensor* export_dlpack_legacy(const array::Tensor& tensor);

}  // namespace crossdock::exchange
