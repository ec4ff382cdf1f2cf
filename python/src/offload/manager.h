#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/device/queue.h"

/// Current queues of Python programs: context variables, so that threads and asyncio's tasks each have their own, and
/// child tasks inherit. Written against CPython itself, as they are read at every allocation.
namespace crossdock::python {

/// The queue that somebody chose for the calling task or thread, or for the process, by crossdock.offload itself (not
/// by a package): a borrowed reference, or null if nobody did.
PyObject* chosen_queue() noexcept;

/// crossdock.offload.Package, current(), current_queue(), ...
void bind_offload(nanobind::module_& module);

}  // namespace crossdock::python
