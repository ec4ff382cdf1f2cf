#pragma once

#include <nanobind/nanobind.h>

namespace crossdock::python {

/// Returns the C++ object of `self`, which is one of T, for slots that CPython calls without nanobind. Returns null,
/// with a TypeError set, where it was never constructed: a derived class may leave out the call of __init__(), and
/// __new__() makes none.
template <class T>
T* instance_of(PyObject* self) noexcept {
  if (nanobind::inst_ready(self)) [[likely]]
    return nanobind::inst_ptr<T>(self);
  PyErr_SetString(PyExc_TypeError, "this object isn't initialized: its class doesn't call super().__init__()");
  return nullptr;
}

/// Returns the same for code that may throw. Throws nanobind::python_error.
template <class T>
T& initialized(nanobind::handle self) {
  T* const object = instance_of<T>(self.ptr());
  if (object == nullptr) throw nanobind::python_error();
  return *object;
}

}  // namespace crossdock::python
