#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/array/tensor.h"
#include "crossdock/device/queue.h"

/// The dictionary of the SYCL USM array interface, and Python's objects that stand for SYCL's; what they mean is in
/// crossdock/exchange/usm_array.h.
namespace crossdock::python {

/// False if the object has no __sycl_usm_array_interface__. Throws InvalidDataError, Python's TypeError, and what
/// import_usm_array() throws.
bool tensor_from_usm_array(PyObject* object, array::Tensor* out);

/// The attribute; AttributeError for other memory.
PyObject* usm_array_interface(PyObject* self, void* unused) noexcept;
/// sycl_usm_array_interface(syclobj=)
PyObject* usm_array_interface_with(PyObject* self, PyObject* const* arguments, Py_ssize_t positional,
                                   PyObject* keywords) noexcept;

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

/// from_sycl_usm_array_interface()
void bind_usm_array(nanobind::module_& module);

}  // namespace crossdock::python
