#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// The queue that a Python program names: a crossdock.Queue, a filter string or a device's name, a crossdock.Device or
/// DLPack's pair of numbers, or another library's stream or queue (see crossdock.Queue). Needs the interpreter lock.
/// Throws InvalidArgumentError, NotFoundError, UnsupportedError, and what the object raises.
device::Queue select_queue(nanobind::handle of);
/// The same; nothing for an object that names no queue: an array, say.
std::optional<device::Queue> named_queue(nanobind::handle of);
/// A queue, or that of an array: as select_queue(), else of what asarray() takes. Throws InvalidArgumentError for an
/// array of the host, which is on none, and UnsupportedTypeError for what is neither.
device::Queue queue_of(nanobind::handle of);
/// Where an argument says that memory is to be: a device (tensor/device.h), or the one that a filter string chooses.
/// Throws as both.
device::Device select_device(nanobind::handle of);
/// The same as a crossdock.Queue: a new reference. Texts are remembered until a driver's devices change.
nanobind::object select_queue_object(nanobind::handle of);
/// Where work runs where nobody said anything; a borrowed reference, good until the next call into the package.
PyObject* default_queue_object();

}  // namespace crossdock::python
