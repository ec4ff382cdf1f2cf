#pragma once

#include <nanobind/nanobind.h>

/// Methods and attributes of C types, called without the bound method or the lookups that Python makes first: those
/// cost as much as torch takes to answer. A descriptor's C function is called only on objects of the type that the
/// descriptor belongs to: Python code can put any descriptor into any class. Everything else goes by Python's own call.
namespace crossdock::python {

/// `object.method()`. A new reference, or null with the Python error set.
PyObject* call_method(PyObject* object, PyObject* method) noexcept;

/// `object.name`; no object where there is none. Throws as optional_attribute().
nanobind::object attribute(PyObject* object, PyObject* name);

/// The class named `name` (as C extensions name theirs, with the module) among the object's own class and its bases;
/// null if there is none. A class that Python code made never counts, whatever its name is: instances of the class that
/// is returned have the layout and the methods of the C extension. Nothing has to be imported to know.
PyTypeObject* c_class_of(nanobind::handle object, const char* name) noexcept;

/// Whether Python code can't have made this class, nor can change it: it is a C extension's, or one of Python's own.
inline bool is_c_class(const PyTypeObject* type) noexcept { return (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0; }

}  // namespace crossdock::python
