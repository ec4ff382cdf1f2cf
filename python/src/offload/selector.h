#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// Returns the queue that a Python object names: a crossdock.Queue, a filter string or a device's name, a
/// crossdock.Device or DLPack's pair of numbers, or another library's stream or queue (see crossdock.Queue). Needs the
/// GIL. Throws InvalidArgumentError, NotFoundError, UnsupportedError, Python's TypeError, and the errors of the object.
device::Queue select_queue(nanobind::handle of);
/// The same, but returns nullopt for an object that names no queue, for example an array.
std::optional<device::Queue> named_queue(nanobind::handle of);
/// Returns the queue that an object names, as select_queue(), or else the queue of an array that asarray() accepts.
/// Throws InvalidArgumentError for an array in host memory, which is on no queue, and UnsupportedTypeError for an
/// object that is neither an array nor names a queue.
device::Queue queue_of(nanobind::handle of);
/// Returns the device that an argument `device` names: a device (tensor/device.h), or the device that a filter string
/// selects. Throws as both.
device::Device select_device(nanobind::handle of);
/// Calls select_queue(). Returns the queue as a crossdock.Queue. Results for texts are cached until the devices of a
/// driver change.
nanobind::object select_queue_object(nanobind::handle of);
/// Returns the default queue, for work without a chosen queue. A borrowed reference, valid until the next call into the
/// package.
PyObject* default_queue_object();

}  // namespace crossdock::python
