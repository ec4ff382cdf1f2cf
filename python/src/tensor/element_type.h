#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "crossdock/array/tensor.h"

namespace crossdock::python {

/// Makes a crossdock.DType.
nanobind::object element_type_object(const array::ElementType& type);

/// Converts any object that names an element type: a DType, a name or typestr, a dtype of NumPy or torch, a NumPy
/// scalar type, bool, int, float or complex. Throws InvalidArgumentError, UnsupportedTypeError.
array::ElementType element_type_in(nanobind::handle object);

/// Returns true if has_name() says so of the type or of one of its base classes.
bool is_made_from(PyTypeObject* type, const char* name) noexcept;
bool is_numpy_dtype(nanobind::handle object) noexcept;

/// Returns true for a typestr that NumPy uses for types of other packages: untyped bytes, a float of one byte, or a
/// kind that NumPy itself doesn't have. Only the dtype's name identifies such a type.
bool may_be_another_packages(std::string_view typestr) noexcept;

/// Convert a `descr` of the array interface from Python and to Python. Throw nb::type_error, InvalidArgumentError.
std::vector<array::DescrField> descr_in(nanobind::handle descr);
nanobind::object descr_object(const array::ElementType& type);

void bind_element_type(nanobind::module_& module);

}  // namespace crossdock::python
