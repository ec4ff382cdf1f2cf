#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/tensor.h"
#include "crossdock/exchange/arrow_tensor.h"

/// Arrow columns and tensors. See crossdock/exchange/arrow_tensor.h for what becomes what.
namespace crossdock::python {

/// A tensor of an object with __arrow_c_array__ or __arrow_c_device_array__; with `streams` of one with
/// __arrow_c_stream__ too, if that gives one batch. False if it has none.
bool tensor_from_arrow(PyObject* object, exchange::BoolPolicy bools, bool streams, array::Tensor* out);

// Methods of crossdock.Tensor.
PyObject* arrow_schema(PyObject* self, PyObject* unused) noexcept;
PyObject* arrow_array(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;
PyObject* arrow_device_array(PyObject* self, PyObject* const* arguments, Py_ssize_t positional,
                             PyObject* names) noexcept;
PyObject* to_arrow(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) noexcept;

/// crossdock.Column and from_arrow()
void bind_column(nanobind::module_& module);

}  // namespace crossdock::python
