#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// The queue to run on for `count` arrays of any library; `queue` is one to run on, or null or None. No object where
/// all arrays are the host's. Throws ExecutionPlacementError, and what asarray() throws.
nanobind::object placement_of(PyObject* const* arrays, Py_ssize_t count, PyObject* queue);

/// The same memory for work on `queue`, as offload::associated(); nothing where the queue doesn't reach it. Waits for
/// pending work if it is the host's queue. Needs the lock, and releases it.
std::optional<array::Tensor> associated_with(const array::Tensor& tensor, const device::Queue& queue);

/// offload::collocate(), likewise.
array::Tensor collocated(const array::Tensor& tensor, const device::Queue& queue);

/// accessible(), queue_of()
void bind_placement(nanobind::module_& module);

}  // namespace crossdock::python
