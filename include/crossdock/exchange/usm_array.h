#pragma once

#include <cstdint>

#include "crossdock/array/tensor.h"
#include "crossdock/core/export.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// The SYCL USM array interface, version 1: what it means. Its dictionary, and the objects that stand for SYCL's, are
/// Python's, and are read and written there.
namespace crossdock::exchange {

inline constexpr int kUsmArrayVersion = 1;

/// Makes a tensor of what a dictionary says: of `*tensor` type, extents (strides in bytes), data (with the offset in
/// it) and read_only are set, and owner. `queue` is a SYCL queue in the context that its `syclobj` stands for. The
/// driver is asked for the pointer: it says the device and the kind of memory, and, of memory that it made, the
/// allocation, which the elements must not leave. An array without elements may have any pointer, which tells the kind
/// of memory where it is one of the device's.
///
/// Order: the interface has no event, and a producer must have finished, or have put its work on an in-order queue.
/// With `ordered`, `queue` is the producer's own, and the tensor's event is the end of what is on it when somebody
/// first needs that (device::Event::end_of): whoever works on the same queue waits for nothing. Otherwise it counts as
/// ready. Puts nothing on any queue.
///
/// Throws InvalidDataError: another version, a pointer that isn't bound to the context, elements outside the
/// allocation, extents that make no sense. What the queue's context throws.
CROSSDOCK_EXPORT void import_usm_array(array::Tensor* tensor, std::int64_t version, const device::Queue& queue,
                                       bool ordered, const device::DriverRegistry& drivers);

/// The queue to show, in whose order the tensor's work comes: the one that it is associated with, else its device's
/// default one, which is ordered after the tensor's event. That is enough where the queue is in-order; where it isn't,
/// the caller waits for the event (wait_ready()), as the interface can carry none. Waits for nothing. Throws
/// ExportError for memory that isn't SYCL's, or has no typestr, or strides that are no multiple of an element;
/// UnsupportedError for masks.
CROSSDOCK_EXPORT device::Queue export_usm_array(const array::Tensor& tensor, const device::DriverRegistry& drivers);

/// True for memory that SYCL allocated.
CROSSDOCK_EXPORT bool is_usm(const array::Tensor& tensor) noexcept;

}  // namespace crossdock::exchange
