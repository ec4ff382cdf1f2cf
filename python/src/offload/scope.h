#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "../python_api.h"
#include "object.h"

/// Scopes in which a queue is current. The value of a package's context variable is None, or an entry of a scope. Uses
/// CPython's C API directly, because queues are read at every allocation, and scopes are entered around small calls.
namespace crossdock::python {

/// Makes a crossdock.offload.Scope of a context variable. Returns a new reference, or null with the Python error set.
PyObject* new_scope(nanobind::object variable, nanobind::object queue) noexcept;

/// A scope that a task has entered. Holds the variable's previous value, so that a scope can end without a token.
/// The garbage collector doesn't track it, which would cost more than all its other work. That is safe, because the
/// context holds the entry, and the entry holds no scope.
struct Entered {
  std::uint64_t scope;  ///< The number of its scope.
  nanobind::object queue;
  nanobind::object outer;  ///< The variable's previous value.
};

extern PyTypeObject* entered_type;

/// Returns the entry in a value, or null if the value is no entry. The value can be any object: Python code that finds
/// the variable in a context can set it.
inline Entered* entered_or_null(const nanobind::object& value) noexcept {
  return Py_TYPE(value.ptr()) == entered_type ? &value_of<Entered>(value.ptr()) : nullptr;
}

/// Returns the variable's value, or no object with the Python error set.
inline nanobind::object value_in(const nanobind::object& variable) noexcept {
  return nanobind::steal(context_variable(variable.ptr()));
}

void bind_scope(nanobind::module_& module);

}  // namespace crossdock::python
