#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// The queue to run on for `count` arrays of any library; `queue` is one to run on, or null or None. No object where
/// all arrays are the host's. Throws ExecutionPlacementError, and what asarray() throws.
nanobind::object placement_of(PyObject* const* arrays, Py_ssize_t count, PyObject* queue);

/// accessible(), collocate()
void bind_placement(nanobind::module_& module);

}  // namespace crossdock::python
