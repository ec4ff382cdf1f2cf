#pragma once

#include <Python.h>

/// Attribute and keyword names that hot calls use: interned once, so that finding them compares pointers.
namespace crossdock::python::names {

/// `name` as an interned string, a reference for good; null with the Python error set.
#define CROSSDOCK_INTERNED(name)                                         \
  inline PyObject* name() noexcept {                                     \
    static PyObject* const interned = PyUnicode_InternFromString(#name); \
    return interned;                                                     \
  }

CROSSDOCK_INTERNED(stream)
CROSSDOCK_INTERNED(max_version)
CROSSDOCK_INTERNED(dl_device)
CROSSDOCK_INTERNED(device)
CROSSDOCK_INTERNED(dtype)
CROSSDOCK_INTERNED(copy)
CROSSDOCK_INTERNED(queue)
CROSSDOCK_INTERNED(sync)
CROSSDOCK_INTERNED(__dlpack__)
CROSSDOCK_INTERNED(__dlpack_device__)
CROSSDOCK_INTERNED(__dlpack_c_exchange_api__)
CROSSDOCK_INTERNED(__array_interface__)
CROSSDOCK_INTERNED(__array__)
CROSSDOCK_INTERNED(__cuda_array_interface__)
CROSSDOCK_INTERNED(__arrow_c_array__)
CROSSDOCK_INTERNED(__arrow_c_device_array__)

#undef CROSSDOCK_INTERNED

}  // namespace crossdock::python::names
