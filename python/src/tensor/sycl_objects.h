#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/sycl.h"

/// Python's objects that stand for SYCL's: dpctl's queues, contexts and devices, and capsules of the first two. All of
/// it under the interpreter lock.
namespace crossdock::python {

/// The driver. Throws UnsupportedError where there is no SYCL, and says what was tried.
device::SyclDriver& sycl();

/// The queue of an object that stands for SYCL's queue, context or device: a dpctl.SyclQueue, SyclContext or
/// SyclDevice, a capsule "SyclQueueRef" or "SyclContextRef" (which is used up), or an object with _get_capsule(). No
/// queue if it is none of these. `pointer`: of the memory that the context is wanted for, or null. Throws
/// InvalidDataError, UnsupportedError where there is no SYCL.
std::optional<device::Queue> sycl_queue_in(nanobind::handle object, const void* pointer);
/// The queue that dpctl uses for a dpctl.SyclDevice; for a part of one, of which it has none, the same one each time.
/// No queue for anything else.
std::optional<device::Queue> sycl_queue_of_device(nanobind::handle object);
/// A capsule "SyclQueueRef" with a copy of the queue, which its consumer takes, or it takes with it.
nanobind::object sycl_queue_capsule(const device::Queue& queue);
/// A capsule "SyclContextRef" with the context that a queue is in; its consumer copies it.
nanobind::object sycl_context_capsule(const device::Queue& queue);
/// The filter string of a device as SYCL itself reads it: with its own backend, and counted among its own devices.
std::string sycl_filter_of(const device::Device& device);

/// What a capsule stands for, which isn't used up. `pointer` and what it throws: see sycl_queue_in().
device::Queue queue_of_capsule(nanobind::handle capsule, const void* pointer);
/// A capsule that was taken can't be taken again: as dpctl does it, renamed, with its destructor left to its maker.
void use_up(nanobind::handle capsule);
/// Whether an object, of those that sycl_queue_in() takes, is a producer's own queue: that orders its work.
bool stands_for_a_queue(nanobind::handle object);

}  // namespace crossdock::python
