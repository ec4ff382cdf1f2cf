#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/tensor.h"
#include "crossdock/device/event.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// crossdock.Queue, or null for None. Throws Python's TypeError for anything else. Lives as long as the object.
const device::Queue* queue_in(nanobind::handle object);
nanobind::object queue_object(const device::Queue& queue);

/// crossdock.Event; `device` says whose it is.
nanobind::object event_object(const device::Event& event, const device::Device& device);

void bind_queue(nanobind::module_& module);

}  // namespace crossdock::python
