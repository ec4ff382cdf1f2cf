#pragma once

#include <nanobind/nanobind.h>

/// Fast calls of methods and attributes of C types: without the bound method and the lookups of an ordinary Python
/// call, which cost as much as torch needs to answer. A descriptor's C function is called only on objects of the type
/// that the descriptor belongs to, because Python code can put any descriptor into any class. All other cases use
/// Python's own call, and so does a module by the stable ABI.
namespace crossdock::python {

/// Calls `object.method()`. Returns a new reference, or null with the Python error set.
PyObject* call_method(PyObject* object, PyObject* method) noexcept;

/// Returns `object.name`, or no object if there is no such attribute. Throws as optional_attribute().
nanobind::object attribute(PyObject* object, PyObject* name);

/// Searches the object's class and its bases for a C extension's class named `name`, which includes the module. Returns
/// null if there is none. Ignores classes made by Python code, whatever their name is, so instances of the returned
/// class have the layout and the methods of the C extension. Imports nothing.
PyTypeObject* c_class_of(nanobind::handle object, const char* name) noexcept;

}  // namespace crossdock::python
