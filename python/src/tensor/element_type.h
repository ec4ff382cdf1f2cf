#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "crossdock/array/element_type.h"

namespace crossdock::python {

/// crossdock.DType
nanobind::object element_type_object(const array::ElementType& type);

/// What Python programs write for a type: a DType, a name or typestr, a dtype of NumPy or torch, a NumPy scalar type,
/// bool, int, float or complex. Throws InvalidArgumentError, UnsupportedTypeError.
array::ElementType element_type_in(nanobind::handle object);

/// The type itself, or one that it is made from, by its tp_name.
bool is_made_from(PyTypeObject* type, const char* name) noexcept;
bool is_numpy_dtype(nanobind::handle object) noexcept;

/// True of a typestr under which NumPy shows types that other packages gave it, by their names alone: bytes, a float of
/// one byte, or a kind that NumPy has no elements of.
bool may_be_another_packages(std::string_view typestr) noexcept;

/// A descr of the array interface as Python has it, and back. Throws nb::type_error, InvalidArgumentError.
std::vector<array::DescrField> descr_in(nanobind::handle descr);
nanobind::object descr_object(const array::ElementType& type);

void bind_element_type(nanobind::module_& module);

}  // namespace crossdock::python
