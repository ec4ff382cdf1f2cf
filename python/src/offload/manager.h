#pragma once

#include <nanobind/nanobind.h>

/// The current queues of Python programs. They are context variables: each thread and asyncio task has its own, and
/// child tasks inherit it. Uses CPython's C API directly, because they are read at every allocation.
namespace crossdock::python {

/// Returns the queue that was chosen for the calling task or thread, or for the process, through a
/// crossdock.offload.Package, or, if that is null, through crossdock.offload itself. A borrowed reference, or null if
/// none was chosen.
PyObject* chosen_queue(PyObject* package = nullptr) noexcept;

/// Binds crossdock.offload.Package, current(), current_queue() and others.
void bind_offload(nanobind::module_& module);

}  // namespace crossdock::python
