#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/array/tensor.h"

/// The dictionary of the CUDA Array Interface; what it means is in crossdock/exchange/cuda_array.h.
namespace crossdock::python {

/// Reads a dictionary; `owner` may be None. `sync`: false ignores the stream, as does the global switch. Throws
/// InvalidDataError, Python's TypeError, and what import_cuda_array() throws.
array::Tensor tensor_from_cuda_interface(nanobind::handle interface, nanobind::handle owner, std::optional<bool> sync);
/// False if the object has no __cuda_array_interface__.
bool tensor_from_cuda_array(PyObject* object, std::optional<bool> sync, array::Tensor* out);

/// The attribute; AttributeError for other memory.
PyObject* cuda_array_interface(PyObject* self, void* unused) noexcept;

void bind_cuda_array(nanobind::module_& module);

}  // namespace crossdock::python
