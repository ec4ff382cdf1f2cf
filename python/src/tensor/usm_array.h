#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/tensor.h"

/// Reads and writes the dictionary of the SYCL USM array interface. crossdock/exchange/usm_array.h implements its
/// meaning, and sycl_objects.h converts its `syclobj`.
namespace crossdock::python {

/// Imports an object by its __sycl_usm_array_interface__, or an array of dpnp from its C structure. Returns false if
/// the object has no such interface. Throws InvalidDataError, Python's TypeError, and the errors of import_usm_array().
bool tensor_from_usm_array(PyObject* object, array::Tensor* out);

/// The attribute __sycl_usm_array_interface__. Raises AttributeError for memory that isn't SYCL's.
PyObject* usm_array_interface(PyObject* self, void* unused) noexcept;

/// Binds from_sycl_usm_array_interface(), and Tensor.sycl_usm_array_interface().
void bind_usm_array(nanobind::module_& module);

}  // namespace crossdock::python
