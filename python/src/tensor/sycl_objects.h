#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "crossdock/device/device.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/sycl.h"

/// Python objects that stand for SYCL objects: dpctl's queues, contexts and devices, and capsules of queues and
/// contexts. All functions need the GIL.
namespace crossdock::python {

/// Returns the SYCL driver. Throws UnsupportedError if there is no SYCL here; the message says what was tried.
device::SyclDriver& sycl();

/// Returns the queue for an object that stands for a SYCL queue or context: a crossdock.Queue of SYCL, a
/// dpctl.SyclQueue or SyclContext, a capsule "SyclQueueRef" or "SyclContextRef", or an object whose _get_capsule()
/// gives such a capsule. Consumes the capsule. Returns nullopt for any other object. `pointer`: memory in the context,
/// which selects the context's device, or null. Throws InvalidDataError; UnsupportedError if there is no SYCL here.
std::optional<device::Queue> sycl_queue_in(nanobind::handle object, const void* pointer);
/// Returns the queue that dpctl uses for a dpctl.SyclDevice. For a sub-device, for which dpctl has no such queue,
/// returns the same queue each time as long as it is cached. Returns nullopt for any other object.
std::optional<device::Queue> sycl_queue_of_device(nanobind::handle object);
/// Makes a capsule "SyclQueueRef". The capsule holds `queue`, which keeps the native queue alive until the capsule is
/// destroyed, also after a consumer has renamed it.
nanobind::object sycl_queue_capsule(const device::Queue& queue);
/// Makes a capsule "SyclContextRef" with the context of a queue. The capsule keeps the context alive until it is
/// destroyed; the consumer copies the context.
nanobind::object sycl_context_capsule(const device::Queue& queue);
/// Returns the filter string of a device as SYCL itself understands it: with SYCL's name of the backend, and a number
/// among SYCL's own devices.
std::string sycl_filter_of(const device::Device& device);

/// Returns the queue for a capsule, without consuming the capsule. `pointer` and errors: see sycl_queue_in().
device::Queue queue_of_capsule(nanobind::handle capsule, const void* pointer);
/// Marks a capsule as consumed, so that it can't be consumed again. Renames it as dpctl does, and leaves the destructor
/// of its producer in place.
void use_up(nanobind::handle capsule);
/// Returns true if `object` is a producer's own queue, which orders the producer's work. Returns false for contexts and
/// filter strings. `object` must be one that sycl_queue_in() accepts, or a filter string.
bool stands_for_a_queue(nanobind::handle object);

}  // namespace crossdock::python
