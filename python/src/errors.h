#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <utility>

#include "python_api.h"

/// Converts C++ exceptions to Python exceptions. No other file does so.
namespace crossdock::python {

/// Looks up the classes in crossdock.errors, one per ErrorCode. Sets the module's `error_classes` (a tuple by code,
/// with the root class at 0), and registers the translator. Called once, with the GIL. Throws Python's AttributeError
/// if a code has no class.
void register_errors(nanobind::module_& module);

/// Sets the C++ exception that is being handled as the Python error of this thread. For functions that CPython calls
/// directly, without nanobind. Needs the GIL.
void set_python_error() noexcept;

/// Returns the Python exception that the C++ exception becomes. Needs the GIL.
nanobind::object exception_object(const std::exception_ptr& error);

/// Throws a Python exception of class `type`. The text is formatted as by PyErr_Format().
template <class... Values>
[[noreturn]] void throw_python(PyObject* type, const char* format, Values... values) {
  PyErr_Format(type, format, values...);
  throw nanobind::python_error();
}

/// Throws Python's TypeError with the text "`rule`, not <the object's type>".
[[noreturn]] inline void throw_type_error(nanobind::handle object, const char* rule) {
  throw_python(PyExc_TypeError, "%s, not %s", rule, type_name_of(object.ptr()).c_str());
}

/// Calls `work`. Returns its result, or null with the Python error set if it throws.
template <class Work>
PyObject* guarded(Work&& work) noexcept {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// Formats a Python exception as "ValueError: text". Needs the GIL.
std::string describe(const nanobind::python_error& error);

}  // namespace crossdock::python
