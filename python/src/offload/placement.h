#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// Returns the queue to run on for `count` arrays of any library. `queue` is the caller's choice, or null or None.
/// Returns no object if all arrays are in host memory and no queue was named. Throws ExecutionPlacementError, and the
/// errors of asarray().
nanobind::object placement_of(PyObject* const* arrays, Py_ssize_t count, PyObject* queue);

/// Calls offload::associated(): returns the same memory, for work on `queue`. Returns nullopt if the queue doesn't
/// reach the memory. Waits for pending work if `queue` is the host's. Needs the GIL, and releases it.
std::optional<array::Tensor> associated_with(const array::Tensor& tensor, const device::Queue& queue);

/// Calls offload::collocate(). Needs the GIL, and releases it.
array::Tensor collocated(const array::Tensor& tensor, const device::Queue& queue);

/// Binds accessible(), queue_of() and first_queue_of().
void bind_placement(nanobind::module_& module);

}  // namespace crossdock::python
