#pragma once

#include <cstdint>

#include "crossdock/array/dlpack_abi.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"

/// DLPack, versions 0.x (legacy) to 1.3.
///
/// DLPack has no event: who gives a tensor makes its data ready on the consumer's queue. So what comes in counts as
/// ready (the caller has ordered its queue as the protocol says), and what goes out must be: see sync.h.
namespace crossdock::exchange {

/// A view of what somebody else owns: nothing is kept alive. Strides may be null (C order); `flags` are those of
/// DLManagedTensorVersioned. Of host memory no element is read, of a device neither. Throws InvalidDataError for
/// extents and pointers that make no sense, UnsupportedTypeError for packed elements of less than a byte.
CROSSDOCK_EXPORT array::Tensor view_dlpack(const DLTensor& tensor, std::uint64_t flags);
/// The type of elements that `dtype` says; `flags` likewise. Throws as view_dlpack().
CROSSDOCK_EXPORT array::ElementType element_type_of(const DLDataType& dtype, std::uint64_t flags);
/// Fills `*out`, of which `shape` and `strides` are room for `tensor.ndim()` numbers each, or null for no dimensions.
/// `data` is the lowest address that any element has, and `byte_offset` leads from there to the first element: it isn't
/// 0 where strides are negative. The tensor has passed check_dlpack().
CROSSDOCK_EXPORT void describe_dlpack(const array::Tensor& tensor, std::int64_t* shape, std::int64_t* strides,
                                      DLTensor* out) noexcept;

/// Takes over `*managed`: on success the tensor's owner calls its deleter, on the thread that drops the last owner; on
/// a throw it is still the caller's. Throws as view_dlpack(); InvalidArgumentError for a null struct,
/// UnsupportedTypeError for a major version other than 1.
CROSSDOCK_EXPORT array::Tensor import_dlpack(DLManagedTensorVersioned* managed);
/// The same of the legacy struct, which can't say that memory is read-only: what comes in is writable.
CROSSDOCK_EXPORT array::Tensor import_dlpack(DLManagedTensor* managed);

/// Throws ExportError if DLPack can't say what the tensor is (its text says which and what to do): byte-swapped or
/// described elements (structured, text, dates), strides that are no multiple of the element's size, device ids beyond
/// 31 bits; with `legacy` read-only memory, too. UnsupportedError if it has a mask. InvalidArgumentError if its event
/// may not be complete: order_on() or wait_ready() first.
CROSSDOCK_EXPORT void check_dlpack(const array::Tensor& tensor, bool legacy);

/// The device as DLPack numbers it: the CPU, pinned and managed memory are device 0, whatever id they came with.
CROSSDOCK_EXPORT device::Device dlpack_device(const device::Device& device) noexcept;

/// Gives a view of the tensor away; the memory lives until the deleter is called, on whatever thread, once. One
/// allocation, whatever the number of dimensions. Flags: read-only, padded, and `copied`: the caller made this
/// memory for the hand-over, and nobody else has it. Version 1.3; strides are never null
/// but for no dimensions, and a tensor of no elements has a null pointer. Throws as check_dlpack().
CROSSDOCK_EXPORT DLManagedTensorVersioned* export_dlpack(const array::Tensor& tensor, bool copied = false);
CROSSDOCK_EXPORT DLManagedTensor* export_dlpack_legacy(const array::Tensor& tensor);

}  // namespace crossdock::exchange
