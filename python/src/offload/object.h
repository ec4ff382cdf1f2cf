#pragma once

#include <Python.h>

#include <new>
#include <utility>

/// Objects of types that are written with CPython's C API: a header, and a C++ value. The garbage collector doesn't
/// track them, so a value must not lead back to its object.
namespace crossdock::python {

template <class Value>
struct Object {
  PyObject ob_base;
  Value value;
};

template <class Value>
Value& value_of(PyObject* self) noexcept {
  return reinterpret_cast<Object<Value>*>(self)->value;
}

/// Returns a new reference, or null with the Python error set.
template <class Value>
PyObject* new_object(PyTypeObject* type, Value value) noexcept {
  auto* const object = PyObject_New(Object<Value>, type);
  if (object != nullptr) new (&object->value) Value(std::move(value));
  return reinterpret_cast<PyObject*>(object);
}

/// The slot tp_dealloc.
template <class Value>
void deallocate(PyObject* self) noexcept {
  PyTypeObject* const type = Py_TYPE(self);
  value_of<Value>(self).~Value();
  PyObject_Free(self);
  Py_DECREF(type);
}

}  // namespace crossdock::python
