#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/tensor.h"

/// The dictionary of the SYCL USM array interface; what it means is in crossdock/exchange/usm_array.h, and what its
/// `syclobj` stands for in sycl_objects.h.
namespace crossdock::python {

/// False if the object has no __sycl_usm_array_interface__. Throws InvalidDataError, Python's TypeError, and what
/// import_usm_array() throws.
bool tensor_from_usm_array(PyObject* object, array::Tensor* out);

/// The attribute; AttributeError for other memory.
PyObject* usm_array_interface(PyObject* self, void* unused) noexcept;
/// sycl_usm_array_interface(syclobj=)
PyObject* usm_array_interface_with(PyObject* self, PyObject* const* arguments, Py_ssize_t positional,
                                   PyObject* keywords) noexcept;

/// from_sycl_usm_array_interface()
void bind_usm_array(nanobind::module_& module);

}  // namespace crossdock::python
