#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/device/event.h"
#include "crossdock/device/queue.h"

namespace crossdock::python {

/// The queue of an argument that was given (offload/selector.h says what that may be); nothing for null and None.
std::optional<device::Queue> queue_in(nanobind::handle object);
/// Of a crossdock.Queue, as long as the object lives; null for anything else.
const device::Queue* queue_or_null(nanobind::handle object) noexcept;
nanobind::object queue_object(const device::Queue& queue);

/// crossdock.Event; `device` says whose it is.
nanobind::object event_object(const device::Event& event, const device::Device& device);

void bind_queue(nanobind::module_& module);

}  // namespace crossdock::python
