#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "crossdock/array/tensor.h"

/// Reads and writes the dictionary of the CUDA Array Interface. crossdock/exchange/cuda_array.h implements its meaning.
namespace crossdock::python {

/// Imports a dictionary. `owner` keeps the memory alive; it may be None. `sync`: whether to respect the stream;
/// nullopt: as the global switch says. `known`: the element type, for types that a typestr can't express. Throws
/// InvalidDataError, Python's TypeError, and the errors of import_cuda_array().
array::Tensor tensor_from_cuda_interface(nanobind::handle interface, nanobind::handle owner, std::optional<bool> sync,
                                         const std::optional<array::ElementType>& known = {});
/// Imports an object by its __cuda_array_interface__. Returns false if it has none.
bool tensor_from_cuda_array(PyObject* object, std::optional<bool> sync, array::Tensor* out);

/// The attribute __cuda_array_interface__. Raises AttributeError for memory that isn't CUDA's and for elements without
/// a typestr.
PyObject* cuda_array_interface(PyObject* self, void* unused) noexcept;

void bind_cuda_array(nanobind::module_& module);

}  // namespace crossdock::python
