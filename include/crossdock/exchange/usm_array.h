#pragma once

#include <cstdint>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// The SYCL USM array interface, version 1. This is its meaning only; the Python layer reads and writes the dictionary
/// and the objects that stand for SYCL objects.
namespace crossdock::exchange {

/// The version of the SYCL USM array interface that exports follow.
inline constexpr int kUsmArrayVersion = 1;

/// Completes a tensor from the entries of a dictionary. The caller has set type, extents (strides in bytes), data (with
/// the offset added), read_only and owner of `*tensor`. `queue` is a SYCL queue in the context that `syclobj` stands
/// for.
///
/// Asks the driver for the device and the kind of memory of the pointer, and, for memory that the driver made, the
/// allocation that the elements must not leave. An array without elements may have any pointer; if it is one of the
/// device's, it tells the kind of memory.
///
/// Order: the interface carries no event. A producer must have finished its work, or have put it on an in-order queue,
/// which `queue` then is; it becomes the tensor's queue. Puts nothing on any queue.
///
/// Throws InvalidDataError for another version, for a pointer that isn't bound to the context, for elements outside the
/// allocation, and for invalid extents; also the errors of the queue's context.
CROSSDOCK_EXPORT void import_usm_array(array::Tensor* tensor, std::int64_t version, const device::Queue& queue,
                                       const device::DriverRegistry& drivers);

/// Returns the queue to show to a consumer; the tensor's work comes in its order. This is the tensor's queue, else its
/// device's default queue, which is first ordered after what is pending on the tensor.
///
/// That is enough for an in-order queue. If the queue isn't in-order, the caller must wait for the event
/// (wait_ready()), because the interface can't carry one. Doesn't wait. Throws ExportError for memory that isn't
/// SYCL's, for elements without a typestr, and for strides that aren't a multiple of the element size. Throws
/// UnsupportedError for masks.
CROSSDOCK_EXPORT device::Queue export_usm_array(const array::Tensor& tensor, const device::DriverRegistry& drivers);

/// True for memory that SYCL allocated.
CROSSDOCK_EXPORT bool is_usm(const array::Tensor& tensor) noexcept;

}  // namespace crossdock::exchange
