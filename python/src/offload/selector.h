#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/device/queue.h"

namespace crossdock::python {

/// The queue that a Python program names: a crossdock.Queue, a filter string or a device's name, a crossdock.Device or
/// DLPack's pair of numbers, or another library's stream or queue (see crossdock.Queue). Needs the interpreter lock.
/// Throws InvalidArgumentError, NotFoundError, UnsupportedError, and what the object raises.
device::Queue select_queue(nanobind::handle of);
/// The same as a crossdock.Queue: a new reference. Texts are remembered until a driver's devices change.
nanobind::object select_queue_object(nanobind::handle of);
/// Where work runs where nobody said anything; a borrowed reference, good until the next call into the package.
PyObject* default_queue_object();

}  // namespace crossdock::python
