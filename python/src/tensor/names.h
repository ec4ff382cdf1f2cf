#pragma once

#include <Python.h>

#include <cstddef>

#include "../python_api.h"

/// Attribute and keyword names for hot calls. They are interned once, so that Python finds them by comparing pointers.
namespace crossdock::python::names {

/// Returns `name` as an interned string, a borrowed reference that is always valid, or null with the Python error set.
#define CROSSDOCK_INTERNED(name)                                         \
  inline PyObject* name() noexcept {                                     \
    static PyObject* const interned = PyUnicode_InternFromString(#name); \
    return interned;                                                     \
  }

CROSSDOCK_INTERNED(stream)
CROSSDOCK_INTERNED(max_version)
CROSSDOCK_INTERNED(dl_device)
CROSSDOCK_INTERNED(device)
CROSSDOCK_INTERNED(device_id)
CROSSDOCK_INTERNED(id)
CROSSDOCK_INTERNED(index)
CROSSDOCK_INTERNED(dtype)
CROSSDOCK_INTERNED(copy)
CROSSDOCK_INTERNED(queue)
CROSSDOCK_INTERNED(sync)
CROSSDOCK_INTERNED(str)
CROSSDOCK_INTERNED(itemsize)
CROSSDOCK_INTERNED(is_cpu)
CROSSDOCK_INTERNED(is_neg)
CROSSDOCK_INTERNED(is_conj)
CROSSDOCK_INTERNED(requires_grad)
CROSSDOCK_INTERNED(__dlpack__)
CROSSDOCK_INTERNED(__dlpack_device__)
CROSSDOCK_INTERNED(__dlpack_c_exchange_api__)
CROSSDOCK_INTERNED(__array_interface__)
CROSSDOCK_INTERNED(__array__)
CROSSDOCK_INTERNED(__crossdock_array__)
CROSSDOCK_INTERNED(__cuda_array_interface__)
CROSSDOCK_INTERNED(__cuda_stream__)
CROSSDOCK_INTERNED(__sycl_usm_array_interface__)
CROSSDOCK_INTERNED(__usm_ndarray__)
CROSSDOCK_INTERNED(_get_capsule)
CROSSDOCK_INTERNED(usm_type)
CROSSDOCK_INTERNED(__arrow_c_array__)
CROSSDOCK_INTERNED(__arrow_c_device_array__)
CROSSDOCK_INTERNED(__arrow_c_stream__)
CROSSDOCK_INTERNED(__arrow_c_device_stream__)

#undef CROSSDOCK_INTERNED

/// Returns the index of a keyword in `known`, or -1. Compares pointers first, because keywords in compiled code are
/// interned.
template <std::size_t kCount>
int index_of(PyObject* name, PyObject* const (&known)[kCount]) noexcept {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (name == known[i]) return static_cast<int>(i);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    if (PyUnicode_Compare(name, known[i]) == 0) return static_cast<int>(i);
  }
  return -1;
}

/// Stores the value of each keyword `known[i]` in `*slots[i]`. Returns false, with the Python error set, for an unknown
/// keyword and for a slot that already has a value.
template <std::size_t kCount>
bool read_keywords(const char* function, PyObject* const* values, PyObject* keywords, PyObject* const (&known)[kCount],
                   PyObject** const (&slots)[kCount]) noexcept {
  const Py_ssize_t n = keywords != nullptr ? tuple_size(keywords) : 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const int which = index_of(tuple_item(keywords, i), known);
    if (which < 0) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, tuple_item(keywords, i));
      return false;
    }
    if (*slots[which] != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function, tuple_item(keywords, i));
      return false;
    }
    *slots[which] = values[i];
  }
  return true;
}

}  // namespace crossdock::python::names
