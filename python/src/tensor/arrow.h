#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/array/tensor.h"
#include "crossdock/exchange/arrow_tensor.h"

/// Conversion between Arrow columns and tensors. crossdock/exchange/arrow_tensor.h lists which types correspond.
namespace crossdock::python {

/// Imports an object with __arrow_c_array__ or __arrow_c_device_array__. With `streams`, also imports an object with
/// __arrow_c_stream__ or __arrow_c_device_stream__, if the stream gives one batch. Returns false if the object
/// has none of these methods.
bool tensor_from_arrow(PyObject* object, exchange::BoolPolicy bools, bool streams, array::Tensor* out);

/// Binds from_arrow(), and the Arrow methods of crossdock.Tensor.
void bind_tensor_arrow(nanobind::module_& module);

}  // namespace crossdock::python
