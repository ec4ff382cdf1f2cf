#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

/// The one place where bytes from outside become a Python str: from a peer, a file, a driver or another library. They
/// are no UTF-8 unless somebody checked; nanobind's cast of a std::string would raise a bare UnicodeDecodeError.
namespace crossdock::python {

/// For display: bytes that aren't UTF-8 become U+FFFD. Needs the lock. Throws nb::python_error (no memory).
nanobind::str displayed(std::string_view text);

/// As displayed(), with \xNN for bytes that aren't UTF-8, so that they can still be told apart: for JSON.
nanobind::str escaped(std::string_view text);

/// Sets the Python error `type` with displayed(text).
void set_error(PyObject* type, std::string_view text) noexcept;

}  // namespace crossdock::python
