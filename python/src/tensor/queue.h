#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/device/driver.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// Returns the queue that an argument names: anything that select_queue() accepts (offload/selector.h). Returns nullopt
/// for null and None.
std::optional<device::Queue> queue_in(nanobind::handle object);
/// Returns the queue in a crossdock.Queue, valid as long as the object lives, or null for any other object.
const device::Queue* queue_or_null(nanobind::handle object) noexcept;
nanobind::object queue_object(const device::Queue& queue);

/// Makes a crossdock.Event. `of` is the context of the event.
nanobind::object event_object(const device::Event& event, const device::DeviceContext& of);

void bind_queue(nanobind::module_& module);
/// Adds Tensor.after(). Call it once the type Tensor exists.
void def_after();

}  // namespace crossdock::python
